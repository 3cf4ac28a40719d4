"""Differences between two runs on the same prompts: intervals, and bounds for margins."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from refusal_checks.metrics.statistics.bootstrap_bounds import Numbers, bounds
from refusal_checks.metrics.statistics.intervals import Estimate, Units

MOST = 1_000_000
"""No advice is given beyond this number of prompts."""

_AT_END = 1e-9
"""Share of the range within which a difference counts as none, or as the whole range."""


class OneSidedBounds(NamedTuple):
    """One-sided confidence bounds on a difference; each holds alone at the stated level."""

    lower: float
    upper: float


def difference(
    before: Sequence[float],
    after: Sequence[float],
    span: float,
    confidence: float,
    units: Units | None = None,
) -> Estimate:
    """Mean of after - before over prompts, with the two-sided interval from ``mean_bounds``."""
    changes = _changes(before, after)
    value = math.fsum(changes) / len(before) if units is None else units.mean(changes)
    bounds = mean_bounds(before, after, span, (1 + confidence) / 2, units)
    return Estimate(
        value, min(value, bounds.lower), max(value, bounds.upper), len(before)
    )


def tango(lost: Any, gained: Any, n: int, difference: Any) -> Any:
    """Score statistic of a difference of paired shares, with a continuity correction.

    It is standard normal, or closer to zero, if ``difference`` (share after - share before), in
    (-1, 1), is the true one. It works on numpy arrays.

    ``lost`` and ``gained`` are flips from 1 to 0 and from 0 to 1 among n prompts.

    Source: T. Tango, "Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design", Statistics in Medicine 17 (1998), equations 3 and 8; corrected by
    half a prompt if the observed difference is smaller than the true one, else by one, which keeps
    one-sided tests at or below a level of 5% even for few flips.
    """
    # McNemar's test is its case for a difference of 0; margins need it for others.
    lost, gained = np.asarray(lost, dtype=float), np.asarray(gained, dtype=float)
    # Constrained maximum likelihood of the share of the losing flips: 2n q^2 + b q + c = 0.
    # Among two roots the larger is the share, which is not negative.
    b = -(lost + gained) + (2 * n - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share = (np.sqrt(np.maximum(b * b - 8 * n * c, 0)) - b) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    distance = gained - lost - n * difference
    slack = np.where(np.sign(distance) * np.sign(difference) > 0, 1.0, 0.5)
    corrected = np.sign(distance) * np.maximum(np.abs(distance) - slack, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = corrected / np.sqrt(variance)
    return np.where(corrected == 0, 0.0, statistic)


@lru_cache(4096)  # most groups of prompts have as few flips as others of their size
def share_bounds(lost: int, gained: int, n: int, confidence: float) -> OneSidedBounds:
    """One-sided bounds on a difference of paired shares: what Tango's test does not reject."""
    z = NormalDist().inv_cdf(confidence)
    value = (gained - lost) / n
    # The statistic falls as the difference grows, so that each bound is the one root on its side.
    lower = _root(lambda d: float(tango(lost, gained, n, d)) - z, -1 + 1e-12, value)
    upper = _root(lambda d: float(tango(lost, gained, n, d)) + z, value, 1 - 1e-12)
    return OneSidedBounds(lower, upper)


def prompts_for_margin(margin: float, confidence: float) -> int:
    """The fewest prompts with which zero flips show that a share changed by less than a margin.

    At most ``MOST``, which also stands for any larger number.
    """
    fits = range(1, MOST)
    return 1 + bisect_left(
        fits, -margin, key=lambda n: share_bounds(0, 0, n, confidence).lower
    )


def mean_bounds(
    before: Sequence[float],
    after: Sequence[float],
    span: float,
    confidence: float,
    units: Units | None = None,
) -> OneSidedBounds:
    """One-sided bounds on a mean difference; valid, and never worse for a better value.

    Yes-no scores get Tango's bounds (``share_bounds``); others get those of ``bounded``, kept
    between two of Tango's: with every other difference rounded down to -span, 0 or span, then up.

    Args:
        before, after: one value per prompt, in the same order.
        span: width of the range of the values.
        units: what is sampled, if not single prompts; then Tango's bounds are not used.
    """
    changes, tail = _changes(before, after), 1 - confidence
    if units is not None:
        means = units.means(changes)
        return OneSidedBounds(*bounds(means, -span, span, tail, units.weights))
    # Values such as 4/5 - 3/5 are not exact in floats.
    slack = _AT_END * span
    n = changes.size
    losses, gains = int((changes < -slack).sum()), int((changes > slack).sum())
    whole_losses = int((changes <= slack - span).sum())
    whole_gains = int((changes >= span - slack).sum())
    # Every difference between rounded down, then up.
    least = share_bounds(losses, whole_gains, n, confidence)
    if losses == whole_losses and gains == whole_gains:
        return OneSidedBounds(span * least.lower, span * least.upper)
    most = share_bounds(whole_losses, gains, n, confidence)
    lower, upper = bounds(changes, -span, span, tail)
    return OneSidedBounds(
        min(max(lower, span * least.lower), span * most.lower),
        min(max(upper, span * least.upper), span * most.upper),
    )


def _changes(before: Sequence[float], after: Sequence[float]) -> Numbers:
    return np.subtract(after, before, dtype=np.float64)


def _root(function: Any, low: float, high: float) -> float:
    """The root of a monotone function; without one, the end with the smallest absolute value."""
    at_low, at_high = function(low), function(high)
    if math.copysign(1, at_low) == math.copysign(1, at_high):
        return low if abs(at_low) < abs(at_high) else high
    from scipy.optimize import (
        brentq,
    )  # takes long to import, and collection needs no bounds

    return float(brentq(function, low, high, xtol=1e-12))
