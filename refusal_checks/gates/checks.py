"""What an interval says of a bound, and what that means for a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from refusal_checks.gates.bounds import OnInconclusive
from refusal_checks.metrics.statistics.intervals import Estimate

TOLERANCE = 1e-12
"""Shares such as 4/5 and bounds such as 0.8 are compared with this slack."""


class Outcome(StrEnum):
    """What is known: the interval lies within the bounds, beyond them, or spans one."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class AllowedRange:
    """An inclusive range; None for no end.

    Attributes:
        low, high: at least one is given.
    """

    low: float | None = None
    high: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a value lies within."""
        above = self.low is None or value >= self.low - TOLERANCE
        return above and (self.high is None or value <= self.high + TOLERANCE)

    def outcome(self, lower: float, upper: float) -> Outcome:
        """What an interval says."""
        if self.holds(lower) and self.holds(upper):
            return Outcome.PASS
        beyond = AllowedRange(self.low, None).holds(upper) and AllowedRange(None, self.high).holds(
            lower
        )
        return Outcome.INCONCLUSIVE if beyond else Outcome.FAIL

    def nearest(self, value: float) -> float:
        """The end that is nearest to a value."""
        ends = [end for end in (self.low, self.high) if end is not None]
        return min(ends, key=lambda end: abs(end - value))


@dataclass(frozen=True)
class Check:
    """One comparison of a gate: of its figure, or of the figure's change.

    Attributes:
        outcome: what the interval says.
        met: whether the figure itself is within the limits.
        by_point: whether the figure decides, and an open outcome is only a remark.
        p_breach: probability of a figure so far beyond its limits, or further, if the true one
            were just within them; 1 where it is within.
    """

    outcome: Outcome
    met: bool
    by_point: bool
    p_breach: float

    def result(self, on_inconclusive: OnInconclusive | None) -> OnInconclusive:
        """What this makes of a gate's test."""
        if self.by_point and not self.met:
            return "fail"
        if self.outcome is Outcome.INCONCLUSIVE:
            return on_inconclusive or ("pass" if self.by_point else "fail")
        return "pass" if self.outcome is Outcome.PASS else "fail"


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The one that stands for several: a breach before doubt, doubt before a pass."""
    order = [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    return max(outcomes, key=order.index, default=Outcome.PASS)


def p_breach(estimate: Estimate, limits: AllowedRange, is_share: bool, confidence: float) -> float:
    """One-sided p-value of a figure beyond its limits.

    For a share the exact binomial test (the normal approximation is too bold in the far tail, which
    is where corrections look), for a mean the normal approximation with the standard error that its
    interval implies.
    """
    if limits.holds(estimate.value):
        return 1.0
    bound = limits.nearest(estimate.value)
    below = estimate.value < bound
    if is_share:
        return _binomial_tail(round(estimate.value * estimate.n), estimate.n, bound, below)
    end = estimate.upper if below else estimate.lower
    error = abs(end - estimate.value) / NormalDist().inv_cdf((1 + confidence) / 2)
    distance = abs(estimate.value - bound)
    return NormalDist().cdf(-distance / error) if error > 0 else 0.0


def _binomial_tail(count: int, n: int, share: float, below: bool) -> float:
    from scipy.stats import binom  # seconds of imports that collection need not wait for

    return float(binom.cdf(count, n, share) if below else binom.sf(count - 1, n, share))


def holm(checks: Sequence[Check], alpha: float) -> list[Check]:
    """The same checks; a breach that so many checks together may well show is inconclusive.

    The probability of calling any check of the family breached that is not is at most alpha.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
    of Statistics 6 (1979).
    """
    rejected: set[int] = set()
    for rank, index in enumerate(sorted(range(len(checks)), key=lambda i: checks[i].p_breach)):
        if checks[index].p_breach > alpha / (len(checks) - rank):
            break
        rejected.add(index)
    return [
        replace(check, outcome=Outcome.INCONCLUSIVE)
        if check.outcome is Outcome.FAIL and index not in rejected
        else check
        for index, check in enumerate(checks)
    ]
