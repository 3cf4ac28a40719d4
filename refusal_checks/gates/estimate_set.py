"""A gate's figure in all its variants, and the variant that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.gates.gate import Gate, Use
from refusal_checks.metrics import Metric
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import Need


@dataclass(frozen=True)
class EstimateVariant:
    """A gate's figure, computed in one way.

    Attributes:
        note: what readers must know about it, for example how many prompts have labels.
        decides: False for a figure that is only shown.
        extremes: the figure with the prompts that labellers skipped counted one way and then the
            other; None if they skipped none.
        need: what would decide the gate, if the interval contains its threshold.
        caution: what to do about a figure of a group that rests on too little of its own.
    """

    use: Use
    estimate: Estimate
    note: str = ""
    decides: bool = True
    extremes: tuple[float, float] | None = None
    need: Need | None = None
    caution: str = ""


@dataclass(frozen=True)
class EstimateSet:
    """A metric's figure over some records, and the variant that it rests on.

    Attributes:
        views: all variants of the figure; empty if the judge's is the only one.
        used: the variant that decides; None if the judge's own figure does.
        people: scores of prompts in a random sample that people labelled.
    """

    metric: Metric
    records: Sequence[Record]
    views: tuple[EstimateVariant, ...] = ()
    used: EstimateVariant | None = None
    people: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_share(self) -> bool:
        """True if the judge's own figure decides, and counts whole prompts."""
        scores = self.metric.scores(self.records).values()
        return self.used is None and self.metric.counts_prompts(
            self.metric.values(scores)
        )

    def estimate(self, level: float) -> Estimate:
        """The figure that decides; ``level`` is for the judge's own, other variants have theirs."""
        if self.used:
            return self.used.estimate
        return self.metric.estimate(self.records, level)

    def require_decided(self, gate: Gate) -> None:
        """Raise EvaluationError if the prompts that labellers skipped would decide the gate."""
        used = self.used
        if used is None or used.extremes is None or gate.decision != "point":
            return
        low, high = used.extremes
        if gate.limits.holds(low) == gate.limits.holds(high):
            return
        shown = f"{self.metric.show(low)} to {self.metric.show(high)}"
        raise EvaluationError(
            "label the skipped prompts, which alone decide this gate "
            f"({shown}): {used.note}"
        )
