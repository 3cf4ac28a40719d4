"""What a judge is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.settings import JudgeSampling
from refusal_checks.core.verdicts import Binary, Judgement, Valid

if TYPE_CHECKING:
    from refusal_checks.models.client.client import Client  # HTTP, which collection need not import


class Judge(Protocol):
    """Judges one answer at a time."""

    @property
    def name(self) -> str:
        """The judge as people name it."""

    @property
    def identity(self) -> str | None:
        """What its verdicts depend on besides the exchange; None where storing them is idle."""

    @property
    def prompt_hash(self) -> str:
        """Fingerprint of its instructions; empty for a judge without any."""

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        """The verdict on one answer that is not empty.

        Returns:
            Binary, or Invalid with the reason; never raises for what one exchange brings about.

        Raises:
            EndpointError: the judge's server refuses every request, not only this one.
        """


DEMO = "demo:judge"

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgeSetup:
    """The model that ``--judge`` names, for a judge that asks one.

    Attributes:
        name: the model as the user named it, with its number where the run's judges have it twice.
        client: connection to its server, open while judges judge.
        model_identity: what the model's answers depend on.
        template: what ``--judge-template`` names; None for the judge's own.
        running: whether the server runs already, so that it can be asked before the run.
        note: takes one line that the user must know of how the verdicts came about.
        category_guide: of the benchmark, see ``Benchmark``.
    """

    name: str
    client: Client
    model_identity: str
    sampling: JudgeSampling
    template: str | None = None
    running: bool = False
    note: Callable[[str], None] = _LOG.warning
    category_guide: Path | None = None

    def prompt(self, own: str, demo: str) -> str:
        """The name of the prompt to use: the user's, else the judge's own.

        Args:
            demo: the demo judge's; that model is too small for prompts that explain their task.
        """
        if self.template is not None:
            return self.template
        return demo if self.name.startswith(DEMO) else own

    def showing(self, max_answer_chars: int | None, category_guide: Path | None) -> JudgeSetup:
        """The setup for one benchmark.

        Args:
            max_answer_chars: another limit on what is shown of an answer; None changes nothing.
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


def require_labels(setup: JudgeSetup, labels: Sequence[str]) -> None:
    """Ask a judge's server, where it runs already, whether it can give labels' probabilities.

    vLLM can, so one that is started for the run need not be asked.

    Raises:
        ModelError: it cannot; with the remedy.
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
            f"--judge {setup.name}: this benchmark's judge reads the probabilities of the labels "
            f"{', '.join(labels)}, and {fault}; name a judge behind vLLM (0.32 or later), or a "
            "server whose chat completions give top_logprobs"
        ) from None
