"""The interface of judges, and what they are made from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.settings import Cascading, JudgeSampling, Rationales
from refusal_checks.core.text import FAMILIES, SpecialTokens
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Reason, Valid
from refusal_checks.models.client.answers import LabelError
from refusal_checks.models.client.errors import PromptTooLongError
from refusal_checks.models.demo import BUNDLED

if TYPE_CHECKING:
    from refusal_checks.models.client.client import Client  # HTTP, which collection need not import


class Judge(Protocol):
    """Judges one answer at a time.

    A judge may also have what the functions of the same names below look for: ``special_tokens``,
    ``samples``, ``without_asking``, ``explained``, ``reasoned`` and ``without_answer``.
    """

    @property
    def name(self) -> str:
        """The name that users know the judge by."""

    @property
    def identity(self) -> str | None:
        """All that verdicts depend on besides the exchange; None if they need not be stored."""

    @property
    def prompt_hash(self) -> str:
        """Fingerprint of the instructions; empty if there are none."""

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        """Judge one answer, which is not empty.

        Returns:
            A valid verdict, or Invalid with the reason; one bad exchange never raises.

        Raises:
            EndpointError: the judge's server refuses every request, not only this one.
        """


def special_tokens(judge: Judge) -> SpecialTokens | None:
    """The special tokens that a judge breaks up in what it judges; None if it breaks up none."""
    found: SpecialTokens | None = getattr(judge, "special_tokens", None)
    return found


def verdicts_asked(judge: Judge) -> int:
    """How many verdicts a judge draws for one answer."""
    return int(getattr(judge, "samples", 1))


def without_asking(judge: Judge, prompt: Prompt, completion: Completion) -> Judgement | None:
    """The verdict that a judge gives without its model, which is not stored; None to ask it."""
    decide = getattr(judge, "without_asking", None)
    verdict: Judgement | None = decide(prompt, completion) if decide else None
    return verdict


def gives_grounds(judge: Judge) -> bool:
    """True if a judge gives the grounds of a verdict when it is asked for them."""
    return hasattr(judge, "explained")


async def explained(
    judge: Judge, prompt: Prompt, completion: Completion, verdict: Judgement
) -> Judgement:
    """A verdict with the grounds that a judge gives only when it is asked for them.

    They cost requests of their own, so only what reports show is asked about. Only the verdict's
    words change.
    """
    explain: Callable[..., Awaitable[Judgement]] | None = getattr(judge, "explained", None)
    return await explain(prompt, completion, verdict) if explain else verdict


def reasoned(judge: Judge) -> Judge | None:
    """The same judge as it writes its reasons first, if it is asked for verdicts alone.

    To keys, the canary and calibrations the two are two judges.
    """
    found: Judge | None = getattr(judge, "reasoned", None)
    return found


def without_answer(judges: Iterable[Judge], completion: Completion) -> list[Judgement]:
    """Each judge's verdict on an exchange without an answer; empty unless every judge gives one."""
    found = []
    for judge in judges:
        decide = getattr(judge, "without_answer", None)
        if decide is None or (verdict := decide(completion)) is None:
            return []
        found.append(verdict)
    return found


DEMO = "demo:judge"
"""The toy judge of the tests (``tests/toy_model``), which has short prompts of its own."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgeSetup:
    """The model that ``--judge`` names, for judges that ask one.

    Attributes:
        name: the model as the user named it, numbered if the run has it twice.
        client: connection to its server, open while answers are judged.
        model_identity: everything that the model's answers depend on.
        template: the value of ``--judge-template``; None for the judge's own prompt.
        running: true if the server is up already, so that it can be asked before the run.
        note: takes one line that the user must know about how verdicts are made.
        category_guide: of the benchmark, see ``Benchmark``.
        special_tokens: of the model; they are broken up in all that is judged.
        folder: with the model's files, if an engine is started for it and they are here.
        cascade: when the bundled judge leaves a verdict to another one.
        rationales: when a judge of refusal writes its reasons.
    """

    name: str
    client: Client
    model_identity: str
    sampling: JudgeSampling
    template: str | None = None
    running: bool = False
    note: Callable[[str], None] = _LOG.warning
    category_guide: Path | None = None
    special_tokens: SpecialTokens = FAMILIES
    folder: Path | None = None
    cascade: Cascading = Cascading()  # noqa: RUF009 (it is frozen)
    rationales: Rationales = "all"

    @property
    def is_bundled(self) -> bool:
        """True for the judge that this package brings along, which reads refusals only."""
        return self.name == BUNDLED

    def prompt(self, own: str, demo: str) -> str:
        """The name of the prompt to use: the user's, else the judge's own.

        Args:
            demo: the toy judge's; that model is too small for prompts that explain their task.
        """
        if self.template is not None:
            return self.template
        return demo if self.name.startswith(DEMO) else own

    def showing(self, max_answer_chars: int | None, category_guide: Path | None) -> JudgeSetup:
        """The setup for one benchmark.

        Args:
            max_answer_chars: another limit on the characters shown of an answer; None keeps it.
        """
        update = {} if max_answer_chars is None else {"max_answer_chars": max_answer_chars}
        sampling = self.sampling.model_copy(update=update)
        return replace(self, sampling=sampling, category_guide=category_guide)


@dataclass(frozen=True)
class JudgeKind:
    """A way of judging: one module of ``judges.kinds``.

    Attributes:
        build: makes the judge; its argument is None where ``--judge`` names no model.
        verdicts: the type of the judge's valid verdicts.
        judges_refusal: the judges ``keyword`` and ``labels`` can stand in for its models, the
            canary checks these, and calibrations are of them. True of one kind only.
    """

    name: str
    build: Callable[[JudgeSetup | None], Judge]
    verdicts: type[Valid] = Binary
    judges_refusal: bool = False


def failed(fault: EndpointError) -> Invalid:
    """The verdict where a judge's request failed; raises what fails for every answer."""
    if isinstance(fault, LabelError):
        raise fault
    is_too_long = isinstance(fault, PromptTooLongError)
    return Invalid(Reason.JUDGE_INPUT_TOO_LONG if is_too_long else Reason.JUDGE_ERROR, str(fault))


def require_labels(setup: JudgeSetup, labels: Sequence[str]) -> None:
    """Raise ModelError if a judge's server is up and does not give the probabilities of labels.

    An engine that is started for the run gives them, so it is not asked.
    """
    if not setup.running:
        return

    async def ask() -> None:
        async with setup.client as client:
            await client.label_probabilities((Message("user", labels[0]),), labels)

    try:
        asyncio.run(ask())
    except EndpointError as fault:
        raise ModelError(
            f"--judge {setup.name}: name a judge behind vLLM (0.32 or later), or a server whose "
            "chat completions give top_logprobs: this benchmark's judge reads the probabilities "
            f"of the labels {', '.join(labels)}, and {fault}"
        ) from None
