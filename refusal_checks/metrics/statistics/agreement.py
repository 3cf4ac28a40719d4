"""Agreement of scores of the same things: two judges, two languages, an expected order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of paired scores.

    Attributes:
        n: pairs.
        spearman, kendall: rank correlations in [-1, 1] (Kendall's is tau-b, which allows for
            ties); None if either side's scores are all equal, or n is below 3.
        mean_absolute_difference: in units of the score.
    """

    n: int
    spearman: float | None
    kendall: float | None
    mean_absolute_difference: float


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


def falling(scores: Sequence[float]) -> float:
    """Spearman's correlation of scores with a falling order, in [-1, 1]; 0 for equal scores.

    Args:
        scores: at least 3.
    """
    return agreement([-float(place) for place in range(len(scores))], scores).spearman or 0.0


def matched(
    first: Mapping[str, float], second: Mapping[str, float], pairs: Mapping[str, str] | None = None
) -> list[tuple[str, float, float]]:
    """The keys with a score on both sides, with both scores.

    Args:
        pairs: the second side's key by the first one's; None if they are the same.
    """
    names = {name: name for name in first} if pairs is None else pairs
    return [
        (name, first[name], second[other])
        for name, other in names.items()
        if name in first and other in second
    ]
