"""The interface of judges, and what builds them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.errors import ModelError
from refusal_checks.core.judgements import Binary, Judgement, PartialCount, Valid
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import JudgementSettings, Thresholds
from refusal_checks.judges import template
from refusal_checks.judges.prompt_metadata import Criterion, model_names
from refusal_checks.judges.template import JudgePrompt

if TYPE_CHECKING:
    # HTTP, which collection need not import.
    from refusal_checks.models.client.client import Client
    from refusal_checks.models.model_files import ClassifierConfig


class Judge:
    """The base class of judges; everything but ``judge`` has a default.

    Attributes:
        name: the judge's name, as users know it.
        identity: everything that verdicts depend on besides the exchange; None if verdicts are not
            stored.
        prompt_hash: fingerprint of the instructions; empty without any.
        samples: number of verdicts that it draws for one answer.
        gives_probabilities: True if its verdicts have the probability of a refusal.
        thresholds: for such a judge, from which probability an answer counts as a refusal.
        partial: what partial refusals count as, where a judge tells them from full ones.
        expected: the form of verdict that it asks its model for, in words.
        model_identity: everything that its model's answers depend on; empty without a model.
        is_attached: True if its model is on a server that others run.
        generation: see ``Store.begin_generation``.
        max_tokens: most tokens of one verdict; 0 if no model writes one.
        criterion: what it measures, see ``prompt_metadata.Criterion``.
        languages: ISO 639 codes of the languages on which it was measured; empty if unknown.
    """

    name: str
    identity: str | None = None
    prompt_hash: str = ""
    samples: int = 1
    gives_probabilities: bool = False
    thresholds: Thresholds = Thresholds()
    partial: PartialCount = "refusal"
    expected: str = ""
    model_identity: str = ""
    is_attached: bool = False
    generation: str = ""
    max_tokens: int = 0
    criterion: Criterion = "refusal"
    languages: tuple[str, ...] = ()

    @property
    def stored_model(self) -> str:
        """The key that its stored verdicts share, so that they can be set aside; may be empty."""
        return self.model_identity or self.identity or ""

    def apply_settings(self, prompt: Prompt, verdict: Judgement) -> Judgement:
        """Label a verdict by what should happen to the prompt.

        Thresholds decide if the judge gives probabilities, and ``partial`` decides how a partial
        refusal counts. Stored verdicts are not labelled this way, so that other settings ask
        nothing anew.
        """
        if not isinstance(verdict, Binary):
            return verdict
        if self.gives_probabilities:
            verdict = verdict.apply_threshold(self.thresholds.of(prompt.kind))
        return verdict.count_partial(self.partial, prompt.kind)

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        """Judge one answer, which is not empty.

        Returns:
            A verdict, or Invalid with the reason if this exchange cannot be judged.

        Raises:
            EndpointError: the judge's server fails for every request, not only this one.
        """
        verdict = self.judge_offline(prompt, completion)
        assert verdict is not None, "a judge that asks a model says how"
        return verdict

    def judge_offline(self, prompt: Prompt, completion: Completion) -> Judgement | None:
        """Return a verdict without asking the model or storing it; None to ask the model."""
        return None


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgeSetup:
    """The model that ``--judge`` names, for judges that ask one.

    Attributes:
        name: as the user named it, numbered if the run has it twice.
        client: client of the model; open while answers are judged.
        model_identity: everything that the model's answers depend on.
        template: the template of ``judge.prompt``, or the folder of prompts that came with the
            model; None for the judge's own prompt.
        is_attached: True if the model is on a server that others run.
        running: True if the server is up already, so that it can be asked before the run.
        note: function that takes a line which the user must know about verdicts.
        category_guide: the benchmark's guide, see ``Benchmark``.
        classes: classes of a sequence classifier; None for a model that writes.
        settings: of the run file's table ``judge``.
    """

    name: str
    client: Client
    model_identity: str
    sampling: JudgeSampling
    template: str | None = None
    is_attached: bool = False
    running: bool = False
    note: Callable[[str], None] = _LOG.warning
    category_guide: Path | None = None
    classes: ClassifierConfig | None = None
    settings: JudgementSettings = JudgementSettings()  # noqa: RUF009 (it is frozen)

    @property
    def endpoint(self) -> str:
        """The reader of a model that takes no judge prompt; empty for one that takes messages."""
        if self.classes is not None:
            return "classifier"
        return "moderation" if self.client.moderates else ""

    @property
    def prompts(self) -> Path | None:
        """A folder with the only prompts that suit the model; None to use the package's own.

        Its files are named like the package's, for example ``refusal.md``.
        """
        folder = Path(self.template) if self.template else None
        return folder if folder and folder.is_dir() else None

    @property
    def published(self) -> str | None:
        """The package's prompt for this model, unless the user names another; else None."""
        if self.template is not None or self.endpoint:
            return None
        return template.find_packaged(self.name, self.client.model)

    @property
    def is_unknown_guard(self) -> bool:
        """True for a guard, by its name, for which there is no prompt."""
        if self.template is not None or self.endpoint or self.published:
            return False
        return is_guard(self.name) or is_guard(self.client.model)

    @property
    def says(self) -> str:
        """The only verdicts the model can give, in words; empty if it takes any judge prompt."""
        if self.endpoint == "classifier":
            return "refusals"
        if self.endpoint:
            return "harm"
        if self.published:
            measured = template.load(self.published).metadata.measures
            return "harm" if measured == "harm" else "refusals"
        return ""

    def prompt(self, own: str) -> JudgePrompt:
        """The prompt for a way of judging whose own is ``own``.

        That is the user's or the model's, if it measures the same; else ``own``. ModelError if the
        model is a guard of unknown form, or of a form that measures something else.
        """
        if own == "refusal" and not self.settings.rationales:
            if self.template is not None and self.prompts is None:
                raise ModelError(
                    "judge.rationales=false: leave it out: with judge.prompt, your prompt says "
                    "what the judge writes"
                )
            own = "verdict"
        usual = template.load(own)
        criterion = usual.metadata.measures
        if self.prompts is not None:
            file = self.prompts / f"{own}.md"
            found = template.load(str(file))
            if not found.metadata.can_judge(criterion):
                raise ModelError(
                    f'judge.prompt {file}: write measures = "{criterion}", or take the file out: '
                    f"it measures {found.metadata.measures}"
                )
            return found
        if self.template is not None:
            named = template.load(self.template)
            return named if named.metadata.can_judge(criterion) else usual
        if self.published:
            return template.load(self.published)
        if self.is_unknown_guard:
            raise ModelError(
                f"--judge {self.name}: give it a judge prompt in the form of its model card with "
                "--set judge.prompt=FILE.md: it is a guard, which answers in a form of its own. "
                f"For example {GUARD_EXAMPLE}"
            )
        return usual


GUARD_EXAMPLE = """a file with these lines:
+++
reads = "label"
measures = "harm"
labels = { unsafe = "harmful", safe = "harmless" }
+++
===== exchange ====="""

_GUARDS = re.compile(r"guard|shield|moderation|aegis", re.IGNORECASE)


def is_guard(name: str) -> bool:
    """True if a model's name says that it is a guard, which does not follow our instructions."""
    return any(_GUARDS.search(part) for part in model_names(name))


@dataclass(frozen=True)
class JudgeKind:
    """A way of judging.

    Attributes:
        build: makes the judge from a setup, or from None where ``--judge`` names no model.
        judgement_type: type of its judgements.
        criterion: what its judges measure; None for an extension, which does not say.
    """

    name: str
    build: Callable[[JudgeSetup | None], Judge]
    judgement_type: type[Valid] = Binary
    criterion: Criterion | None = None

    @property
    def judges_refusal(self) -> bool:
        """True for one kind: the judges ``keyword`` and ``labels`` can stand in for its models."""
        return self.criterion == "refusal"

    def takes(self, setup: JudgeSetup) -> bool:
        """False for a model that measures something other than this kind asks for."""
        if not setup.says or self.criterion is None:
            return not setup.endpoint
        return self.judges_refusal
