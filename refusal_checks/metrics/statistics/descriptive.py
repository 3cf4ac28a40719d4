"""The distribution of scores, with tests for two peaks; agreement of two lists of scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

BIMODAL = 5 / 9
"""Bimodality coefficient of a uniform distribution; a higher one suggests two peaks."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram and two statistics of bimodality, None if there is too little to test.

    Sources: R. Pfister et al., "Good things peak in pairs: a note on the bimodality coefficient",
    Frontiers in Psychology 4 (2013); J. A. Hartigan, P. M. Hartigan, "The dip test of unimodality",
    Annals of Statistics 13 (1985).
    """

    n: int
    lowest: float
    highest: float
    counts: tuple[
        int, ...
    ]  # by bin of equal width from lowest to highest, which the last includes
    # Sarle's coefficient with its correction for n, in (0, 1]; above ``BIMODAL`` it suggests two
    # peaks. Skewness raises it too, so it is not a test on its own.
    bimodality: float | None = None
    # Hartigan's dip statistic, the distance to the nearest distribution with one peak; None where
    # diptest (the extra ``cfsafety``) is not installed
    dip: float | None = None
    p_value: float | None = (
        None  # of the dip test: probability of such a dip if there is one peak
    )


def distribution(
    values: Sequence[float], lowest: float, highest: float, bins: int = 20
) -> Distribution:
    """The distribution of values, each in [lowest, highest]."""
    sample = np.asarray(values, dtype=float)
    # A value at an end of a bin belongs to the upper one, whatever its last digits.
    places = np.floor(
        np.round((sample - lowest) * bins / (highest - lowest), 6)
    ).astype(int)
    counts = np.bincount(np.clip(places, 0, bins - 1), minlength=bins)
    found = Distribution(sample.size, lowest, highest, tuple(map(int, counts)))
    n = sample.size
    if (
        n < 4 or float(np.ptp(sample)) < 1e-9
    ):  # both statistics need two different values
        return found
    from scipy import stats

    skewness, kurtosis = (
        float(of(sample, bias=False)) for of in (stats.skew, stats.kurtosis)
    )
    bimodality = (skewness**2 + 1) / (kurtosis + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3)))
    if find_spec("diptest") is None:
        return replace(found, bimodality=bimodality)
    from diptest import diptest

    dip, p_value = map(float, diptest(sample))
    return replace(found, bimodality=bimodality, dip=dip, p_value=p_value)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of n paired scores.

    Rank correlations are in [-1, 1]; None if either side's scores are all equal, or n is below 3.
    """

    n: int
    spearman: float | None
    kendall: float | None  # tau-b, which allows for ties
    mean_absolute_difference: float  # in units of the score


def agreement(first: Sequence[float], second: Sequence[float]) -> Agreement:
    """Agreement of scores of the same n >= 1 things, in the same order."""
    differences = [abs(one - other) for one, other in zip(first, second, strict=True)]
    mean = sum(differences) / len(differences)
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return Agreement(len(first), None, None, mean)
    from scipy import stats

    spearman = float(stats.spearmanr(first, second).statistic)
    kendall = float(stats.kendalltau(first, second).statistic)
    return Agreement(len(first), spearman, kendall, mean)


def matched(
    first: Mapping[str, float],
    second: Mapping[str, float],
    pairs: Mapping[str, str] | None = None,
) -> list[tuple[str, float, float]]:
    """The keys with a score on both sides, with both scores; by ``pairs`` of keys or equal ones."""
    names = {name: name for name in first} if pairs is None else pairs
    both = (
        (one, other) for one, other in names.items() if one in first and other in second
    )
    return [(one, first[one], second[other]) for one, other in both]
