"""Confidence sequences: bounds that stay valid however often one looks at them.

They bound the mean of a finite list of values in [0, 1], seen in random order, by betting: a
gambler who doubts that the mean is at most m bets that each next value exceeds what m predicts. If
the mean were at most m, the capital would be a supermartingale and ever reach 1 / alpha with a
probability of at most alpha (Ville's inequality). Once it has, m is ruled out.

Source: I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting",
JRSS B 86 (2024), sections 4 and 5 (approximate GRAPA bets; sampling without replacement).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_BOLD = 0.9
"""Largest share of the capital that one bet risks."""

_GRID = np.linspace(0, 1, 401)
"""Possible means to search for a bound."""

_BESIDE = 1e-9


class Betting:
    """Rules out possible means that are too low, one value at a time.

    Args:
        means: the possible means, in [0, 1].
        total: values in the whole list.
        alpha: probability of ever ruling out the true mean or a higher one.
    """

    def __init__(self, means: Sequence[float] | NDArray[np.float64], total: int, alpha: float):
        self._means = np.asarray(means, dtype=float)
        self._total = total
        self._limit = -np.log(alpha)
        self._seen, self._sum, self._squares = 0, 0.0, 0.0
        self._capital = np.zeros_like(self._means)
        self.too_low = np.zeros(self._means.shape, dtype=bool)

    def see(self, value: float) -> None:
        """Bet on one more value, in [0, 1]; the bet depends on the earlier values only."""
        expected = self._total * self._means - self._sum
        expected = np.clip(expected / (self._total - self._seen), 1e-9, 1)
        mean, variance = self._forecast()
        edge = mean - expected
        bet = np.clip(edge / (variance + edge * edge), 0, _BOLD / expected)
        self._capital += np.log1p(bet * (value - expected))
        self._seen += 1
        self._sum += value
        self._squares += value * value
        # Values that already sum to more than the mean allows rule it out for certain.
        certain = self._sum > self._total * self._means + 1e-9
        self.too_low |= (self._capital >= self._limit) | certain

    def _forecast(self) -> tuple[float, float]:
        """Mean and variance of the values so far and one toss of a fair coin."""
        mean = (self._sum + 0.5) / (self._seen + 1)
        return mean, max(1e-4, (self._squares + 0.5) / (self._seen + 1) - mean * mean)


class TwoSided:
    """Rules out possible means from both sides.

    Args:
        means: the possible means, in [0, 1]; total: values in the whole list.
        confidence: probability that the true mean is never ruled out.
    """

    def __init__(
        self, means: Sequence[float] | NDArray[np.float64], total: int, confidence: float
    ) -> None:
        self._means = np.asarray(means, dtype=float)
        self._below = Betting(self._means, total, (1 - confidence) / 2)
        self._above = Betting(1 - self._means, total, (1 - confidence) / 2)

    def see(self, low: float, high: float) -> None:
        """Take in one more value: the least and the most that it can be."""
        self._below.see(low)
        self._above.see(1 - high)

    @property
    def bounds(self) -> tuple[float, float]:
        """The possible means nearest to those that are not ruled out."""
        lower = self._means[self._below.too_low].max(initial=0.0)
        upper = self._means[self._above.too_low].min(initial=1.0)
        return float(lower), float(upper)


def beside(mean: float) -> list[float]:
    """A mean and its close neighbours, which tell if the true mean is at, above or below it."""
    return [min(1.0, max(0.0, mean + step)) for step in (-_BESIDE, 0.0, _BESIDE)]


def bounds(
    lowest: Iterable[float],
    highest: Iterable[float],
    total: int,
    confidence: float,
    near: Iterable[float] = (),
) -> tuple[float, float]:
    """Bounds on the mean of a list of which a random part is known, valid at any moment.

    Args:
        lowest, highest: the known values in the order they were seen, each in [0, 1]; for an
            uncertain value, the least and the most that it can be.
        confidence: probability that the bounds contain the mean at every look.
        near: means near which the bounds must be precise.
    """
    means = np.unique([*_GRID, *(mean for point in near for mean in beside(point))])
    sequence = TwoSided(means, total, confidence)
    for low, high in zip(lowest, highest, strict=True):
        sequence.see(low, high)
    return sequence.bounds
