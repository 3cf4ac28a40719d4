"""Estimates with intervals, over prompts or clusters of prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from refusal_checks.metrics.statistics.bootstrap_bounds import Numbers, bounds


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Independent units, each of one or more prompts.

    Attributes:
        of: index in ``weights`` of each prompt's unit, shape (prompts,).
        shares: each prompt's weight in the figure, above 0, shape (prompts,).
        weights: each unit's weight, the sum of its prompts', shape (units,).
    """

    of: NDArray[np.intp]
    shares: Numbers
    weights: Numbers

    def means(self, values: Numbers) -> Numbers:
        """The weighted mean of each unit, shape (units,), from values of shape (prompts,)."""
        return _sums(self.of, self.shares * values, self.weights.size) / self.weights

    def mean(self, values: Numbers) -> float:
        return float(self.shares @ values / self.shares.sum())


def group_units(
    clusters: Sequence[str], shares: Sequence[float] | None = None
) -> Units | None:
    """Group prompts into units; None if each prompt is a unit and all weights are equal.

    A prompt with an empty cluster is a unit of its own; ``shares`` are the prompts' weights.
    """
    names = [name or number for number, name in enumerate(clusters)]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    weights = np.ones(len(names)) if shares is None else np.asarray(shares, dtype=float)
    if len(places) == len(names) and (shares is None or np.ptp(weights) == 0):
        return None
    of = np.array([places[name] for name in names], dtype=np.intp)
    return Units(of, weights, _sums(of, weights, len(places)))


def _sums(of: NDArray[np.intp], values: Numbers, size: int) -> Numbers:
    return np.bincount(of, values, size).astype(float)


_AT_END = 1e-9
"""Values this close to an end of the range count as that end, because of float errors."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; lower <= value <= upper."""

    value: float
    lower: float
    upper: float
    n: int  # prompts behind it, not answers; the independent units unless prompts have clusters

    def __format__(self, form: str) -> str:
        """Format each number with the spec: ``60.0% [50.1%, 69.2%]`` for ``.1%``."""
        value, lower = format(self.value, form), format(self.lower, form)
        return f"{value} [{lower}, {format(self.upper, form)}]"

    @property
    def width(self) -> float:
        return self.upper - self.lower


def wilson(share: float, n: int, confidence: float = 0.95) -> Estimate:
    """Wilson's score interval for a share observed over n >= 1 independent units.

    For a mean of shares, the interval is conservative, because values in [0, 1] vary no more than
    yes-no answers.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 22 (1927), 209-212. Rates of refusal lie near 0% and 100%, where the textbook's interval
    (Wald's) is too short: L. D. Brown, T. T. Cai, A. DasGupta, "Interval estimation for a binomial
    proportion", Statistical Science 16 (2001), 101-133.
    """
    # All t with (share - t)^2 <= z^2 t (1 - t) / n, solved for t.
    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # At a share of 0 or 1 an end is the share itself, but for the last digits.
    return Estimate(
        share,
        max(0.0, min(share, centre - half)),
        min(1.0, max(share, centre + half)),
        n,
    )


def is_wilson(estimate: Estimate, confidence: float) -> bool:
    """True if the interval is Wilson's, for a share of independent units, all evaluated."""
    share = min(1.0, max(0.0, estimate.value))
    expected = wilson(share, estimate.n, confidence)
    is_lower = math.isclose(expected.lower, estimate.lower, abs_tol=1e-9)
    is_upper = math.isclose(expected.upper, estimate.upper, abs_tol=1e-9)
    return is_lower and is_upper


def bounded_mean(
    values: Sequence[float],
    lowest: float,
    highest: float,
    confidence: float = 0.95,
    units: Units | None = None,
) -> Estimate:
    """Mean of values in [lowest, highest], with an interval that no better value makes worse.

    Yes-no values (all at an end of the range) get Wilson's interval; others get that of
    ``bounded``, kept between two Wilson intervals: with every other value moved to one end of the
    range, then to the other. So an end of the interval moves up only if a value does, whatever the
    values. Units of several values use ``bounded`` alone.
    """
    sample = np.asarray(values, dtype=float)
    tail, span = (1 - confidence) / 2, highest - lowest
    # Whole clusters are not yes-no, and Wilson's interval knows no weights.
    if units is not None:
        means, weights, mean = units.means(sample), units.weights, units.mean(sample)
        lower, upper = bounds(means, lowest, highest, tail, weights)
        return Estimate(mean, min(mean, lower), max(mean, upper), sample.size)
    mean, n = math.fsum(values) / sample.size, sample.size
    at_top, above = sample >= highest - _AT_END, sample > lowest + _AT_END
    least = wilson(float(at_top.mean()), n, confidence)  # others moved to the bottom
    lower, upper = lowest + span * least.lower, lowest + span * least.upper
    if (at_top != above).any():
        most = wilson(float(above.mean()), n, confidence)  # others moved to the top
        inner_lower, inner_upper = bounds(sample, lowest, highest, tail)
        lower = min(max(lower, inner_lower), lowest + span * most.lower)
        upper = min(max(upper, inner_upper), lowest + span * most.upper)
    return Estimate(mean, min(mean, lower), max(mean, upper), n)


def product(figure: Estimate, share: Estimate, lowest: float = 0.0) -> Estimate:
    """The figure's distance from the lower end of its range, times an independent share.

    The legs of both intervals are added in quadrature, each times the other estimate, and reach no
    further than the products of the intervals' ends.

    Source: G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures",
    Statistics in Medicine 27 (2008), and for products R. G. Newcombe, "MOVER-R confidence intervals
    for ratios and products of two independently estimated quantities", Statistical Methods in
    Medical Research 25 (2016).
    """
    # Its ends are not the products of both ends, which assume that both miss on the same side.
    rate, lower, upper = (
        end - lowest for end in (figure.value, figure.lower, figure.upper)
    )
    value = rate * share.value
    below = math.hypot(share.value * (rate - lower), rate * (share.value - share.lower))
    above = math.hypot(share.value * (upper - rate), rate * (share.upper - share.value))
    return Estimate(
        lowest + value,
        lowest + max(lower * share.lower, value - below),
        lowest + min(upper * share.upper, value + above),
        figure.n,
    )


def pool_shares(shares: Sequence[Estimate], confidence: float = 0.95) -> Estimate:
    """The share over all prompts of several parts, from the parts' shares and intervals.

    It has Wilson's interval if all parts do. If clusters widen them, the legs of the parts'
    intervals are added in quadrature; see ``product``.
    """
    n = sum(part.n for part in shares)
    value = sum(part.value * part.n for part in shares) / n
    # Then the whole is a share of yes-no prompts like its parts.
    if all(is_wilson(part, confidence) for part in shares):
        return wilson(value, n, confidence)
    down = math.hypot(*(part.n / n * (part.value - part.lower) for part in shares))
    up = math.hypot(*(part.n / n * (part.upper - part.value) for part in shares))
    return Estimate(value, value - down, value + up, n)
