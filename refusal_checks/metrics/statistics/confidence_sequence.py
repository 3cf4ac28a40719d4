"""Confidence sequences: bounds that stay valid however often one looks.

They bound the mean of a finite list of values in [0, 1], seen in random order, by betting: a
gambler who doubts that the mean is at most m bets that each next value exceeds m's prediction. If
the mean were at most m, the capital would be a supermartingale, and would ever reach 1 / alpha with
a probability of at most alpha (Ville's inequality). Once it does, m is ruled out.

Source: I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting",
JRSS B 86 (2024), sections 4 and 5 (approximate GRAPA bets; sampling without replacement).
"""

from collections.abc import Iterable, Sequence

import numpy as np

from refusal_checks.metrics.statistics.bounded import Numbers

_BOLD = 0.9
"""Largest share of the capital that one bet risks."""

_GRID = np.linspace(0, 1, 401)
"""Possible means to search for a bound."""


class Betting:
    """Rules out possible means that are too low, one value at a time.

    Args:
        means: the possible means, in [0, 1].
        total: number of values in the whole list.
        alpha: probability of ever ruling out the true mean or a higher one.
    """

    def __init__(self, means: Numbers, total: int, alpha: float) -> None:
        self._means = means
        self._total = total
        self._limit = -np.log(alpha)
        self._seen = 0
        self._sum = np.zeros(1)
        self._squares = np.zeros(1)
        self._capital = np.zeros_like(means)
        self.too_low = np.zeros(means.shape, dtype=bool)

    def see(self, value: Numbers) -> None:
        """Bet on one more value, in [0, 1]; the bet depends on the earlier values only.

        ``value`` is one number for all lists, or an array with one for each, in the shape of the
        means.
        """
        expected = self._total * self._means - self._sum
        expected = np.clip(expected / (self._total - self._seen), 1e-9, 1)
        # Forecast from the values so far and one toss of a fair coin.
        mean = (self._sum + 0.5) / (self._seen + 1)
        variance = np.maximum(
            1e-4, (self._squares + 0.5) / (self._seen + 1) - mean * mean
        )
        edge = mean - expected
        bet = np.clip(edge / (variance + edge * edge), 0, _BOLD / expected)
        self._capital += np.log1p(bet * (value - expected))
        self._seen += 1
        self._sum = self._sum + value
        self._squares = self._squares + value * value
        # Values that already sum to more than the mean allows rule it out for certain.
        certain = self._sum > self._total * self._means + 1e-9
        self.too_low |= (self._capital >= self._limit) | certain


class TwoSided:
    """Rules out possible means of a list of ``total`` values from both sides.

    It rules out the true mean with a probability of at most 1 - confidence.
    """

    def __init__(
        self, means: Sequence[float] | Numbers, total: int, confidence: float
    ) -> None:
        self._means = np.asarray(means, dtype=float)
        both = np.stack([self._means, 1 - self._means])
        self._betting = Betting(both, total, (1 - confidence) / 2)

    def see(self, low: float, high: float) -> None:
        """Take in one more value, given by the least and the most that it can be."""
        self._betting.see(np.array([[low], [1 - high]]))

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds: the possible means nearest to those that are not ruled out."""
        below, above = self._betting.too_low
        lower = self._means[below].max(initial=0.0)
        upper = self._means[above].min(initial=1.0)
        return float(lower), float(upper)


def beside(mean: float) -> list[float]:
    """A mean and its close neighbours, to tell whether the true mean is at, above or below it."""
    return [min(1.0, max(0.0, mean + step)) for step in (-1e-9, 0.0, 1e-9)]


def bounds(
    lowest: Iterable[float],
    highest: Iterable[float],
    total: int,
    confidence: float,
    near: Iterable[float] = (),
) -> tuple[float, float]:
    """Bounds on the mean of a list of which a random part is known; valid at any moment.

    They are finest around the means ``near``. The values must be in random order, see ``TwoSided``.
    """
    means = list(_GRID)
    for point in near:
        means += beside(point)
    sequence = TwoSided(np.unique(means), total, confidence)
    for low, high in zip(lowest, highest, strict=True):
        sequence.see(low, high)
    return sequence.bounds
