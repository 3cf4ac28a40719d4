"""Bounds on the mean of bounded values, valid for any distribution and monotone in every value.

The bound is the quantile of a mean with random weights: the values and one more at the bad end of
the range, weighted by independent exponential variables (a Bayesian bootstrap of n + 1 values). The
added value stands for what n units may have missed, so the bound never has zero width: for equal
values it is Clopper and Pearson's for no events, and for yes-no values it is Clopper and Pearson's
bound.

Raising a value, or adding one at the good end, never moves the lower bound down; the reverse holds
for the upper bound. So worse data never passes where better data fails. The quantile is computed,
not simulated, which keeps this true to rounding.

Sources: E. Learned-Miller, P. S. Thomas, "A new confidence interval for the mean of a bounded
random variable" (arXiv 1905.06208); M. Phan, P. S. Thomas, E. Learned-Miller, "Towards practical
mean bounds for small samples", ICML 2021. Coverage is simulated in
``docs/explanation/what-a-pass-means.md``.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]

_DISTINCT = 1000
"""More values than this are rounded to this many steps of their range, 0.1% each."""

_FINE = 10**12
"""Steps for fewer values: floats that differ by less are equal."""

_STEP = 0.1
"""Step between the points of the integral; the error is below 1e-9."""

_NEGLIGIBLE = 30.0
"""The integrand is left out below exp(-30) of its maximum."""

_NORMAL = NormalDist()


def lower_bound(
    values: ArrayLike,
    lowest: float,
    highest: float,
    tail: float,
    weights: ArrayLike | None = None,
) -> float:
    """The one-sided lower bound on the weighted mean of independent values.

    Args:
        values: one or more; values beyond the range count as its ends.
        lowest, highest: the range of possible values.
        tail: probability that the bound exceeds the mean, in (0, 1).
        weights: weights of the values, above 0; equal by default. The unseen value gets the
            largest.
    """
    span = highest - lowest
    scaled = np.clip((np.asarray(values, dtype=float) - lowest) / span, 0.0, 1.0)
    if weights is None:
        weights = np.ones_like(scaled)
    atoms = _atoms(scaled, np.asarray(weights, dtype=float))
    return lowest + span * _quantile(*atoms, tail)


def bounds(
    values: Numbers,
    lowest: float,
    highest: float,
    tail: float,
    weights: Numbers | None = None,
) -> tuple[float, float]:
    """The lower bound, and the upper bound (computed on mirrored values)."""
    upper = -lower_bound(-values, -highest, -lowest, tail, weights)
    return lower_bound(values, lowest, highest, tail, weights), upper


def _atoms(values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Distinct values with their weights and counts, including the unseen value 0."""
    steps = _DISTINCT if values.size > _DISTINCT else _FINE
    values = np.round(values * steps) / steps
    pairs = np.append(values + 1j * (weights / weights.max()), 1j)
    different, counts = np.unique(pairs, return_counts=True)
    return different.real, different.imag, counts.astype(float)


def _quantile(values: Numbers, weights: Numbers, counts: Numbers, tail: float) -> float:
    """The mean below which the randomly weighted mean lies with a probability of ``tail``."""
    top = float(values.max())
    if top == 0.0:
        return 0.0
    target = _NORMAL.inv_cdf(tail)

    def distance(mean: float) -> float:
        below = _probability_below(weights * (values - mean), counts)
        return _NORMAL.inv_cdf(min(max(below, 1e-300), 1 - 1e-16)) - target

    # In units of the normal distribution the probability is nearly linear in the mean.
    shares = weights * counts / float(weights @ counts)
    mean = float(shares @ values)
    deviation = math.sqrt(
        float((shares * weights) @ (values - mean) ** 2) / float(weights @ counts)
    )
    return _root(distance, mean + target * deviation, deviation, top)


def _root(
    distance: Callable[[float], float], guess: float, scale: float, top: float
) -> float:
    """The root of a rising function in (0, top), by secants within a bracket."""
    low, high = 0.0, top
    at, before, far = guess, guess, math.inf
    for _ in range(100):
        if not low < at < high:
            at = (low + high) / 2
        now = distance(at)
        if now < 0:
            low = at
        else:
            high = at
        if abs(now) < 1e-9 or high - low < 1e-13 * top:
            break
        slope = 1 / scale
        if math.isfinite(far) and at != before:
            slope = (now - far) / (at - before)
        following = at - now / slope if slope > 0 else math.nan
        at, before, far = following, at, now
    return before if math.isnan(at) else at


def _probability_below(slopes: Numbers, counts: Numbers) -> float:
    """P(sum of slope x exponential variable <= 0), from the cumulant generating function K.

    The inversion integral of exp(K(s)) / s runs through the saddle point of K, along a parabola on
    which it hardly oscillates (H. E. Daniels, "Saddlepoint approximations in statistics", Ann.
    Math. Stat. 25, 1954), by the trapezoidal rule in steps that make it decay exponentially.
    """
    at, width = _find_saddle(slopes, counts)
    ratios = width * slopes / (1 - at * slopes)
    # First along the parabola; if that leads to where the integrand grows, along a straight line,
    # where it never does.
    for bend, step in ((float(counts @ ratios**3) / 3, _STEP), (0.0, _STEP / 5)):
        rise = np.sinh(np.arange(0.0, _reach(ratios, counts, bend), step))
        path = bend * rise * rise + 1j * rise
        exponent = _logarithm(1 - np.outer(path, ratios), counts)
        if (np.diff(exponent.real) >= 0).all():
            break
    heights = np.exp(-exponent) / (at + width * path) * (2 * bend * rise + 1j)
    weights = np.hypot(1, rise)
    weights[0] /= 2
    peak = math.exp(-float(counts @ np.log(1 - at * slopes)))
    return float(at > 0) - peak * width * step / math.pi * float(heights.imag @ weights)


def _logarithm(
    factors: NDArray[np.complex128], counts: Numbers
) -> NDArray[np.complex128]:
    """Logarithm of each row's product of powers, up to multiples of 2 pi i.

    Some factors are multiplied first, because logarithms are slow.
    """
    once = counts == 1
    logs: NDArray[np.complex128] = np.log(factors[:, ~once]) @ counts[~once]
    if once.any():
        blocks = np.arange(0, int(once.sum()), 32)
        logs = logs + np.log(
            np.multiply.reduceat(factors[:, once], blocks, axis=1)
        ).sum(axis=1)
    return logs


def _reach(ratios: Numbers, counts: Numbers, bend: float) -> float:
    steps = np.arange(2.0, 40.0)
    terms = np.outer(np.sinh(steps), ratios)
    real = 1 - bend * np.sinh(steps)[:, None] * terms
    small = np.log(real * real + terms * terms) @ counts / 2 >= _NEGLIGIBLE
    if not small.any():
        return float(steps[-1])
    return float(steps[int(np.argmax(small))])


def _find_saddle(slopes: Numbers, counts: Numbers) -> tuple[float, float]:
    """Where the path crosses the real axis, at or near the saddle point, and its scale there.

    The path keeps away from 0, the integrand's pole.
    """
    low, high = 1 / float(slopes.min()), 1 / float(slopes.max())
    # Newton's method, or half of the interval when a step leaves it. 60 halvings reach a double's
    # precision; a hundredth of the peak's width is near enough, as any path nearby will do.
    at = 0.0
    for _ in range(60):
        slope, bend = _derivatives(at, slopes, counts)
        if slope > 0:
            high = at
        else:
            low = at
        step = at - slope / bend
        moved = step if low < step < high else (low + high) / 2
        if abs(moved - at) * math.sqrt(bend) < 1e-2:
            break
        at = moved
    if abs(at) * math.sqrt(bend) < 1:
        at = max(-1 / math.sqrt(bend), 0.5 / float(slopes.min()))
        _, bend = _derivatives(at, slopes, counts)
    return at, 1 / math.sqrt(bend)


def _derivatives(at: float, slopes: Numbers, counts: Numbers) -> tuple[float, float]:
    terms = slopes / (1 - at * slopes)
    return float(counts @ terms), float(counts @ (terms * terms))
