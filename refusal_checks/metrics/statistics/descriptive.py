"""The distribution of scores, and the agreement of two orders."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram.

    Attributes:
        counts: number of values in each bin; bins have equal width and run from ``lowest`` to
            ``highest``, which the last bin includes.
    """

    n: int
    lowest: float
    highest: float
    counts: tuple[int, ...]


def distribution(
    values: Sequence[float], lowest: float, highest: float, bins: int = 20
) -> Distribution:
    """The distribution of one or more values, each in [lowest, highest], over equal bins."""
    sample = np.asarray(values, dtype=float)
    # Rounded first: a value on the edge of two bins belongs to the upper one, whatever its last
    # digits are.
    places = np.round((sample - lowest) * bins / (highest - lowest), 6)
    indices = np.clip(np.floor(places).astype(int), 0, bins - 1)
    counts = np.bincount(indices, minlength=bins).tolist()
    return Distribution(sample.size, lowest, highest, tuple(counts))


def rank_agreement(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b, which allows for ties, of two lists of scores of the same items.

    None if all scores of either side are equal, or there are fewer than 3 pairs.
    """
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    # scipy takes seconds to import, and collecting tests need not wait for it.
    from scipy.stats import kendalltau

    return float(kendalltau(first, second).statistic)
