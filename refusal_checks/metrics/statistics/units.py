"""What is sampled as one: a prompt, or a cluster of prompts whose scores are not independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Independent units, each of one or more prompts.

    Attributes:
        of: the unit of each prompt, by its place in ``weights``.
        shares: each prompt's weight in the figure.
        weights: each unit's weight: the sum of its prompts'.
    """

    of: NDArray[np.intp]
    shares: Numbers
    weights: Numbers

    def means(self, values: Numbers) -> Numbers:
        """Each unit's mean of its prompts' values."""
        return _sums(self.of, self.shares * values, self.weights.size) / self.weights

    def mean(self, values: Numbers) -> float:
        """The weighted mean of the prompts' values."""
        return float(self.shares @ values / self.shares.sum())


def units(clusters: Sequence[str], shares: Sequence[float] | None = None) -> Units | None:
    """The units of prompts; None if each prompt is one and all weigh the same.

    Args:
        clusters: each prompt's cluster; a prompt with an empty one is a unit of its own.
        shares: each prompt's weight, above 0; equal by default.
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
