"""How many more prompts or answers an undecided gate would need.

Every number assumes that the figure stays as it is, and that further prompts are of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class Need:
    """What would decide, if the figure stayed as it is.

    Attributes:
        prompts: in all; None where no number decides (the figure lies on its threshold).
        samples: answers a prompt that would do with the same prompts; None where more answers
            alone decide nothing, or nobody can tell from one answer a prompt.
    """

    prompts: int | None
    samples: int | None = None


def for_share(share: float, threshold: float, confidence: float) -> int | None:
    """The fewest prompts whose Wilson interval leaves out the threshold.

    The interval is the inverted score test, so it leaves out t exactly where
    n (p - t)^2 > z^2 t (1 - t).
    """
    distance = abs(share - threshold)
    if distance < 1e-12:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return math.floor(z * z * threshold * (1 - threshold) / distance**2) + 1


def for_mean(value: float, bound: float, threshold: float, n: int) -> int | None:
    """Prompts for which an interval's bound reaches no further than the threshold.

    Args:
        bound: the interval's end on the threshold's side; its distance shrinks with 1 / sqrt(n).
        n: prompts that gave it.
    """
    distance = abs(value - threshold)
    if distance < 1e-12:
        return None
    return max(n, math.floor(n * ((value - bound) / distance) ** 2) + 1)


def samples_for_mean(
    estimate: Estimate, threshold: float, samples: Sequence[Sequence[float]], confidence: float
) -> int | None:
    """Answers a prompt for which the interval of a mean leaves out the threshold.

    The variance of the mean of n prompts with K answers each is (b + w / K) / n, where b is the
    variance between prompts, which no number of answers reduces, and w the one within them.

    Args:
        samples: the answers' scores, prompt by prompt.

    Returns:
        None where more answers alone do not decide, or no prompt has two.
    """
    several = [scores for scores in samples if len(scores) > 1]
    distance = abs(estimate.value - threshold)
    if not several or len(samples) < 2 or distance < 1e-12:
        return None
    within = _mean([_variance(scores) for scores in several])
    per_prompt = _mean([len(scores) for scores in samples])
    means = [_mean(scores) for scores in samples]
    between = max(0.0, _variance(means) - within / per_prompt)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    room = len(samples) * (distance / z) ** 2 - between
    if room <= 0 or within == 0:
        return None
    return max(math.ceil(per_prompt) + 1, math.floor(within / room) + 1)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
