"""The interface of judges, and what they are made from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import Cascading, ClassifierForm, Rationales
from refusal_checks.core.special_tokens import FAMILIES, SpecialTokens
from refusal_checks.core.verdicts import Binary, Judgement, Valid

if TYPE_CHECKING:
    from refusal_checks.models.client.client import (
        Client,
    )  # HTTP, which collection need not import
    from refusal_checks.models.model_files import Classes


class Judge:
    """Judges one answer at a time. What a judge need not be able to do has a default here.

    Attributes:
        name: that users know the judge by.
        identity: all that verdicts depend on besides the exchange; None if they need not be stored.
        prompt_hash: fingerprint of the instructions; empty if there are none.
        special_tokens: that it breaks up in what it judges; None if it breaks up none.
        samples: how many verdicts it draws for one answer.
        reasoned: the same judge as it writes its reasons first, if this one is asked for verdicts
            alone. To keys, the canary and calibrations the two are two judges.
        gives_grounds: it gives the grounds of a verdict when asked for them; see ``explained``.
        cascade: when the other judge of two is asked as well, of a judge that gives probabilities.
        expected: the form of the verdicts that it asks a model for, in words.
        model_identity: all that its model's answers depend on; empty without a model.
        is_attached: the model is on a running server that this package did not start.
        generation: of what is stored of the model, see ``Store.renew``.
        max_tokens: most tokens that a model may write for one verdict; 0 if it writes none.
    """

    name: str
    identity: str | None = None
    prompt_hash: str = ""
    special_tokens: SpecialTokens | None = None
    samples: int = 1
    reasoned: Judge | None = None
    gives_grounds: bool = False
    cascade: Cascading | None = None
    expected: str = ""
    model_identity: str = ""
    is_attached: bool = False
    generation: str = ""
    max_tokens: int = 0

    @property
    def stored_model(self) -> str:
        """Under what verdicts are set aside together; empty if none are stored."""
        return self.model_identity or self.identity or ""

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        """Judge one answer, which is not empty.

        Returns:
            A valid verdict, or Invalid with the reason; one bad exchange never raises.

        Raises:
            EndpointError: the judge's server refuses every request, not only this one.
        """
        found = self.without_asking(prompt, completion)
        assert found is not None, "a judge that asks a model says how"
        return found

    def without_asking(
        self, prompt: Prompt, completion: Completion
    ) -> Judgement | None:
        """The verdict that needs no model and is not stored; None to ask the model."""
        return None

    def without_answer(self, completion: Completion) -> Judgement | None:
        """The verdict on an exchange without a usable answer; None if there can be none."""
        return None

    async def explained(
        self, prompt: Prompt, completion: Completion, verdict: Judgement
    ) -> Judgement:
        """A verdict with the grounds that are given only on request; only its words change.

        They cost requests of their own, so only what reports show is asked about.
        """
        return verdict


DEMO = "demo:judge"
"""The toy judge of the tests (``tests/toy_model``), which has short prompts of its own."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgeSetup:
    """The model that ``--judge`` names, for judges that ask one."""

    name: str  # as the user named it, numbered if the run has it twice
    client: Client  # open while answers are judged
    model_identity: str  # everything that the model's answers depend on
    sampling: JudgeSampling
    template: str | None = None  # of ``judge.prompt``; None for the judge's own prompt
    running: bool = (
        False  # the server is up already, so that it can be asked before the run
    )
    note: Callable[[str], None] = (
        _LOG.warning
    )  # takes what the user must know about verdicts
    category_guide: Path | None = None  # of the benchmark, see ``Benchmark``
    special_tokens: SpecialTokens = (
        FAMILIES  # of the model, broken up in all that is judged
    )
    classes: Classes | None = (
        None  # of a sequence classifier; None for a model that writes
    )
    form: ClassifierForm | None = None  # as a run file says that a classifier is asked
    cascade: Cascading = Cascading()  # noqa: RUF009 (it is frozen)
    rationales: Rationales = "all"  # when a judge of refusal writes its reasons

    @property
    def is_classifier(self) -> bool:
        return self.classes is not None

    def prompt(self, own: str, demo: str) -> str:
        """The prompt to use by name: the user's, else the judge's own.

        The toy judge has another, since it is too small for prompts that explain their task.
        """
        if self.template is not None:
            return self.template
        return demo if self.name.startswith(DEMO) else own


@dataclass(frozen=True)
class JudgeKind:
    name: str
    build: Callable[
        [JudgeSetup | None], Judge
    ]  # of None where ``--judge`` names no model
    verdicts: type[Valid] = Binary
    # True of one kind only: the judges ``keyword`` and ``labels`` can stand in for its models, and
    # calibrations are of them.
    judges_refusal: bool = False

    @property
    def meets_canary(self) -> bool:
        """Its verdicts are refusal or compliance, whoever wrote it, so the canary checks it."""
        return self.verdicts is Binary
