"""Comparing an interval with a bound, and what the result means for a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from refusal_checks.gates.bounds import OnInconclusive
from refusal_checks.metrics.statistics.intervals import Estimate, is_wilson

TOLERANCE = 1e-12
"""Slack when shares such as 4/5 are compared with bounds such as 0.8."""


class Outcome(StrEnum):
    """Position of an interval: within the bounds, beyond one of them, or across one."""

    PASS = "pass"  # noqa: S105  # not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class AllowedRange:
    """An inclusive range; an end that is None is open.

    Attributes:
        low, high: at least one is given, except where nothing is bounded.
    """

    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> list[float]:
        """The ends that are given."""
        return [end for end in (self.low, self.high) if end is not None]

    def holds(self, value: float) -> bool:
        """True if a value lies within."""
        reaches_low = self.low is None or value >= self.low - TOLERANCE
        return reaches_low and (self.high is None or value <= self.high + TOLERANCE)

    def outcome(self, lower: float, upper: float) -> Outcome:
        """The position of an interval."""
        if self.holds(lower) and self.holds(upper):
            return Outcome.PASS
        low_end, high_end = AllowedRange(self.low), AllowedRange(None, self.high)
        overlaps = low_end.holds(upper) and high_end.holds(lower)
        return Outcome.INCONCLUSIVE if overlaps else Outcome.FAIL

    def nearest(self, value: float) -> float:
        """The end that is nearest to a value."""
        return min(self.ends, key=lambda end: abs(end - value))

    def spanned(self, lower: float, upper: float, value: float) -> float:
        """The end nearest to a value, if possible one within the interval."""
        inside = [end for end in self.ends if lower <= end <= upper]
        return min(inside or self.ends, key=lambda end: abs(end - value))


@dataclass(frozen=True)
class BoundCheck:
    """One comparison of a gate: of its figure, or of the figure's change.

    Attributes:
        outcome: the position of the interval.
        met: the figure itself is within the limits.
        by_point: the figure decides, and an inconclusive outcome only adds a remark.
        p_breach: probability of a figure at least this far beyond its limits if the true one were
            just within them; 1 for a figure within.
    """

    outcome: Outcome
    met: bool
    by_point: bool
    p_breach: float

    def in_worst_cases(self, cases: Sequence[Outcome]) -> BoundCheck:
        """The check, which holds only if it does however invalid answers are counted.

        A breach stays one: that answers are missing must not soften it.

        Args:
            cases: positions of the interval in the worst cases; empty without invalid answers.
        """
        if self.outcome is Outcome.FAIL or {*cases} <= {self.outcome}:
            return self
        breached = {*cases} == {Outcome.FAIL}
        return replace(self, outcome=Outcome.FAIL if breached else Outcome.INCONCLUSIVE)

    def result(self, on_inconclusive: OnInconclusive | None) -> OnInconclusive:
        """The result of the gate's test by this check alone."""
        if self.by_point and not self.met:
            return "fail"
        if self.outcome is Outcome.INCONCLUSIVE:
            return on_inconclusive or ("pass" if self.by_point else "fail")
        return "pass" if self.outcome is Outcome.PASS else "fail"


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several checks: a breach outweighs doubt, doubt outweighs a pass."""
    order = [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    return max(outcomes, key=order.index, default=Outcome.PASS)


def p_breach(estimate: Estimate, limits: AllowedRange, is_share: bool, confidence: float) -> float:
    """One-sided p-value of a figure beyond its limits.

    Shares of independent prompts use the exact binomial test, because the normal approximation is
    too bold in the far tail, where corrections for several tests look. All else (means, shares with
    clusters or after an early stop) uses the normal approximation of its own interval.
    """
    if not is_share or not is_wilson(estimate, confidence):
        return p_normal(
            estimate.value, estimate.lower, estimate.upper, limits, (1 + confidence) / 2
        )
    if limits.holds(estimate.value):
        return 1.0
    from scipy.stats import binom  # takes seconds to import, which collection need not wait for

    bound, count = limits.nearest(estimate.value), round(estimate.value * estimate.n)
    below = estimate.value < bound
    tail = binom.cdf(count, estimate.n, bound) if below else binom.sf(count - 1, estimate.n, bound)
    return float(tail)


def p_normal(
    value: float, lower: float, upper: float, limits: AllowedRange, quantile: float
) -> float:
    """One-sided p-value of a value beyond its limits, by the normal approximation.

    Args:
        lower, upper: its interval, from which the standard error is derived.
        quantile: probability that the true value lies below ``upper``.
    """
    if limits.holds(value):
        return 1.0
    bound = limits.nearest(value)
    error = abs((upper if value < bound else lower) - value) / NormalDist().inv_cdf(quantile)
    return NormalDist().cdf(-abs(value - bound) / error) if error > 0 else 0.0


def holm(checks: Sequence[BoundCheck], alpha: float) -> list[BoundCheck]:
    """The checks, with breaches that chance may explain among several made inconclusive.

    The probability that the result contains any false breach is at most alpha.

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
