"""Configuration of a run: the values that the parts of an evaluation take.

A spec holds what a user wrote; ``configure`` makes these of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core import settings
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import RequestPace
from refusal_checks.core.verdicts import PartialCount
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.gates.decision import Rules
from refusal_checks.gates.gate import Waiver
from refusal_checks.judges.trust.floors import JudgeFloors
from refusal_checks.models.model_files import reasons
from refusal_checks.models.names import CandidateModel, JudgeModel
from refusal_checks.models.recordings.columns import ReplayOptions

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import HumanLabels


@dataclass(frozen=True)
class NamedJudge:
    """One judge of a run; repeated names get a number. A template replaces its built-in prompt."""

    name: str
    model: JudgeModel
    template: str | None = None


@dataclass(frozen=True)
class CandidateConfig:
    """The candidate, and how its answers are sampled or read.

    Attributes:
        judge_reasoning: whether reasoning is judged with the answer; None if nobody says.
        filtered: how an answer counts that a server's content filter withheld.
        weighs: True if log-probabilities weigh several answers to a prompt.
    """

    model: CandidateModel
    sampling: Sampling = field(default_factory=Sampling)
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    title: str = ""
    judge_reasoning: bool | None = None
    filtered: settings.Filtered = "invalid"
    weighs: bool = False


@dataclass(frozen=True)
class JudgeConfig:
    """The judges, and every setting that their verdicts depend on.

    Attributes:
        form: how to ask a classifier, if a run file says so.
    """

    judges: tuple[NamedJudge, ...]
    sampling: JudgeSampling = field(default_factory=JudgeSampling)
    rationales: bool = True
    thresholds: settings.Thresholds = field(default_factory=settings.Thresholds)
    partial: PartialCount = "refusal"
    form: settings.ClassifierForm | None = None

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        return tuple(judge.model for judge in self.judges)

    def sampling_of(self, model: JudgeModel) -> JudgeSampling:
        """Sampling settings of one judge's model."""
        return self.sampling.of_reasoning if reasons(model) else self.sampling


@dataclass(frozen=True)
class BaselineConfig:
    """The earlier run to compare with, if any; ``is_required`` if a gate has a margin."""

    path: Path | None = None
    allow_incomparable: bool = False
    is_required: bool = False


@dataclass(frozen=True)
class TrustConfig:
    """Evidence about the judge besides its verdicts.

    Attributes:
        floors: lowest accepted figures on the canary; None if it is not checked.
        labels: people's labels of what counted as refused.
    """

    floors: JudgeFloors | None = None
    allow_untrusted: bool = False
    labels: HumanLabels | None = None


@dataclass(frozen=True)
class EngineConfig:
    """How engines are started and placed, and how fast servers may be asked, by role."""

    placement: PlacementRequest = field(default_factory=PlacementRequest)
    start_timeout: float = 1800.0
    paces: Mapping[str, RequestPace] = field(default_factory=dict)


@dataclass(frozen=True)
class Folders:
    """Where a project keeps its store and its runs."""

    own: Path  # contains both, unless they were placed elsewhere
    runs: Path


@dataclass(frozen=True)
class RunConfig:
    """Configuration of a run; ``prepare`` hands each part to what needs it.

    With a mirror of public data, nothing is downloaded. ``rules`` do not contain human labels yet.
    ``evaluated`` names all benchmarks of the run files, for a check of judges alone, and
    ``measured`` those of this run that have no gate. ``written`` holds the keys of the spec that
    were set, for the manifest, and ``accepted`` the reservations that it accepts.
    """

    answering: CandidateConfig
    judging: JudgeConfig
    store: Path
    fresh: bool = False
    reuse: bool = False
    stored_only: bool = False
    retry_unfinished: bool = False
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    evaluated: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    mirror: Path | None = None
    multiple_choice: settings.MultipleChoice = field(
        default_factory=settings.MultipleChoice
    )
    limits: settings.Limits = field(default_factory=settings.Limits)
    engine: EngineConfig = field(default_factory=EngineConfig)
    trust: TrustConfig = field(default_factory=TrustConfig)
    rules: Rules = field(default_factory=Rules)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    files: tuple[Path, ...] = ()
    usual_seed: int = 0
    redact: bool = False
    written: Mapping[str, object] = field(default_factory=dict)
    accepted: Mapping[str, Waiver] = field(default_factory=dict)

    @property
    def models(self) -> tuple[CandidateModel | JudgeModel, ...]:
        return (self.answering.model, *self.judging.models)
