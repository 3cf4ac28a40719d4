"""Confidence sequences: bounds that stay valid however often one looks at them.

For the mean of a finite list of values in [0, 1] that are seen in a random order, by betting: a
gambler who doubts that the mean is at most m bets on every next value to be above what is then
expected of it. If m, or anything below, were true, the capital would be a supermartingale, and
ever reach 1 / alpha with a probability of at most alpha (Ville's inequality). Once it has, m is
ruled out.

Source: I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting",
JRSS B 86 (2024), sections 4 and 5 (approximate GRAPA bets; sampling without replacement).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_BOLD = 0.9
"""Largest share of the capital that one value can cost."""

_GRID = np.linspace(0, 1, 401)
"""Possible means among which a bound is sought."""

_BESIDE = 1e-9


class Betting:
    """Rules out possible means as too low, a value at a time.

    Args:
        means: the possible means, in [0, 1].
        total: values in the whole list.
        alpha: probability of ever ruling out the true mean, or one above it.
    """

    def __init__(self, means: Sequence[float] | NDArray[np.float64], total: int, alpha: float):
        self._means = np.asarray(means, dtype=float)
        self._total = total
        self._limit = -np.log(alpha)
        self._seen, self._sum, self._squares = 0, 0.0, 0.0
        self._capital = np.zeros_like(self._means)
        self.too_low = np.zeros(self._means.shape, dtype=bool)

    def see(self, value: float) -> None:
        """Bet on one more value, in [0, 1]; the bet uses nothing but the values before it."""
        expected = self._total * self._means - self._sum
        expected = np.clip(expected / (self._total - self._seen), 1e-9, 1)
        mean, variance = self._forecast()
        edge = mean - expected
        bet = np.clip(edge / (variance + edge * edge), 0, _BOLD / expected)
        self._capital += np.log1p(bet * (value - expected))
        self._seen += 1
        self._sum += value
        self._squares += value * value
        # What has been seen may already add up to more than the mean allows: a certainty.
        certain = self._sum > self._total * self._means + 1e-9
        self.too_low |= (self._capital >= self._limit) | certain

    def _forecast(self) -> tuple[float, float]:
        """Mean and variance of the values so far, and of a fair coin's one throw."""
        mean = (self._sum + 0.5) / (self._seen + 1)
        return mean, max(1e-4, (self._squares + 0.5) / (self._seen + 1) - mean * mean)


def beside(mean: float) -> list[float]:
    """A mean and its neighbours, by which it is told whether the true one is at, above or below."""
    return [min(1.0, max(0.0, mean + step)) for step in (-_BESIDE, 0.0, _BESIDE)]


def bounds(
    lowest: Iterable[float],
    highest: Iterable[float],
    total: int,
    confidence: float,
    near: Iterable[float] = (),
) -> tuple[float, float]:
    """Bounds of the mean of a list of which a random part is known, valid at any moment.

    Args:
        lowest, highest: the known values in the order in which they were seen, each in [0, 1];
            where a value is uncertain, the least and the most that it can be.
        confidence: with which the mean lies within the bounds, whenever one looks.
        near: means that the bounds must not be too coarse for.
    """
    means = np.unique([*_GRID, *(mean for point in near for mean in beside(point))])
    below = Betting(means, total, (1 - confidence) / 2)
    above = Betting(1 - means, total, (1 - confidence) / 2)
    for low, high in zip(lowest, highest, strict=True):
        below.see(low)
        above.see(1 - high)
    lower = means[below.too_low].max(initial=0.0)
    upper = means[above.too_low].min(initial=1.0)
    return float(lower), float(upper)
