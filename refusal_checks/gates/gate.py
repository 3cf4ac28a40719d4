"""What a gate is: bounds on one figure, and how it decides."""

from __future__ import annotations

from dataclasses import dataclass

from refusal_checks.gates.bounds import Bounds, Decision, GateSettings, OnInconclusive, Use
from refusal_checks.metrics import METRICS

Key = tuple[str, str, str | None, str | None]
"""What one gate is about: benchmark, metric, kind of group, group."""


@dataclass(frozen=True)
class Gate:
    """One or more bounds on one figure.

    Attributes:
        group_kind, group: the prompts it looks at, for example ``category`` and ``fraud``; both
            None for the whole benchmark.
        minimum, maximum: inclusive.
        source: the threshold file it comes from.
        max_drop, max_rise: margins of the change against the baseline; at least one of the four
            bounds is given.
        decision: whether the figure or its interval is compared with minimum and maximum; a
            change is always tested.
        on_inconclusive: what the gate's test does where the figures do not decide; None for what
            is usual: the point decides where it may, and the test fails where confidence is asked
            for.
        provenance: why the bounds are what they are, as the file says it.
        use: which rate decides; None for the judge's, or that with human labels where there are.
        allow_transferred: whether a calibration on another candidate's answers may decide.
    """

    benchmark: str
    metric: str
    minimum: float | None = None
    maximum: float | None = None
    group_kind: str | None = None
    group: str | None = None
    source: str = ""
    max_drop: float | None = None
    max_rise: float | None = None
    decision: Decision = "point"
    on_inconclusive: OnInconclusive | None = None
    provenance: str = ""
    use: Use | None = None
    allow_transferred: bool = False

    @property
    def id(self) -> str:
        """The test's id: ``benchmark-metric`` or ``benchmark-metric-group``."""
        return "-".join(filter(None, (self.benchmark, self.metric, self.group)))

    @property
    def threshold(self) -> str:
        """The bounds in words, for example ``at least 80.0%``."""
        show = METRICS[self.metric].show
        words = []
        if self.minimum is not None:
            words.append(f"at least {show(self.minimum)}")
        if self.maximum is not None:
            words.append(f"at most {show(self.maximum)}")
        return " and ".join(words) or self.margins

    @property
    def margins(self) -> str:
        """The margins of the change in words, for example ``at most 5.0% lower``."""
        show = METRICS[self.metric].show
        words = []
        if self.max_drop is not None:
            words.append(f"at most {show(self.max_drop)} lower")
        if self.max_rise is not None:
            words.append(f"at most {show(self.max_rise)} higher")
        return " and ".join(words) + " than the baseline" if words else ""

    @property
    def has_bounds(self) -> bool:
        """Whether the figure itself is bounded."""
        return self.minimum is not None or self.maximum is not None

    @property
    def has_margins(self) -> bool:
        """Whether the change against the baseline is bounded."""
        return self.max_drop is not None or self.max_rise is not None


def as_gate(key: Key, source: str, limits: Bounds, rules: GateSettings) -> Gate:
    """The gate that a threshold file's bounds mean under its settings.

    Args:
        source: the threshold file.
    """
    benchmark, metric, kind, group = key
    return Gate(
        benchmark,
        metric,
        limits.min,
        limits.max,
        kind,
        group,
        source,
        max_drop=limits.max_drop,
        max_rise=limits.max_rise,
        decision=rules.decision_of(limits),
        on_inconclusive=rules.on_inconclusive_of(limits),
        provenance=limits.provenance,
        use=rules.use_of(limits, metric),
        allow_transferred=rules.allows_transferred(limits),
    )
