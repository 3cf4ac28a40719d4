"""How many prompts or answers would decide an inconclusive gate.

Every number assumes that the figure stays the same, and that further prompts are of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class Need:
    """What would decide if the figure stayed the same.

    Attributes:
        prompts: in all; None if no number decides, because the figure lies on its threshold.
        samples: answers per prompt that would do with the same prompts; None if more answers alone
            decide nothing, or one answer per prompt cannot tell.
        labels: labels that would do with the same prompts, in all; None if more labels alone
            decide nothing.
        labelled: how many labels there are; None for a figure that needs none.
    """

    prompts: int | None
    samples: int | None = None
    labels: int | None = None
    labelled: int | None = None


@dataclass(frozen=True)
class ErrorParts:
    """Where the uncertainty of a figure comes from: parts of its squared standard error.

    Attributes:
        labels: the part that more labels reduce.
        prompts: the part that more prompts reduce.
        count: how many labels there are.
        most: the highest number of labels that these prompts can have; None for labels of others.
    """

    labels: float
    prompts: float
    count: int
    most: int | None = None


def for_share(share: float, threshold: float, confidence: float) -> int | None:
    """The fewest prompts with which the Wilson interval would not contain the threshold.

    The interval is the inverted score test, so it excludes t exactly if
    n (p - t)^2 > z^2 t (1 - t).
    """
    distance = abs(share - threshold)
    if distance < 1e-12:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return math.floor(z * z * threshold * (1 - threshold) / distance**2) + 1


def for_mean(estimate: Estimate, threshold: float) -> int | None:
    """The fewest prompts with which the interval of a mean would not contain the threshold.

    The distance of the interval's ends from the mean shrinks with 1 / sqrt(n).
    """
    distance = abs(estimate.value - threshold)
    if distance < 1e-12:
        return None
    end = estimate.upper if threshold > estimate.value else estimate.lower
    n = estimate.n
    return max(n, math.floor(n * ((estimate.value - end) / distance) ** 2) + 1)


def for_labels(estimate: Estimate, threshold: float, parts: ErrorParts) -> Need:
    """Prompts, or labels, with which the interval would not contain the threshold.

    Each part of the squared error shrinks with one of the two numbers, and stays as it is while
    the other one grows.
    """
    distance = abs(estimate.value - threshold)
    total = parts.labels + parts.prompts
    end = estimate.upper if threshold > estimate.value else estimate.lower
    half = abs(estimate.value - end)
    if distance < 1e-12 or not half or not total:
        return Need(None, labelled=parts.count)
    room = total * (distance / half) ** 2
    prompts = _grown(estimate.n, parts.prompts, room - parts.labels)
    labels = _grown(parts.count, parts.labels, room - parts.prompts)
    if labels and parts.most is not None and labels > parts.most:
        labels = None
    return Need(prompts, labels=labels, labelled=parts.count)


def _grown(count: int, part: float, room: float) -> int | None:
    """The count at which a part of the error fits the room that is left for it."""
    return max(count, math.floor(count * part / room) + 1) if room > 0 and part > 0 else None


def samples_for_mean(
    estimate: Estimate,
    threshold: float,
    samples: Sequence[Sequence[float]],
    confidence: float,
    ends: tuple[float, float],
) -> int | None:
    """Answers per prompt with which the interval of a mean would not contain the threshold.

    The variance of the mean of n prompts with K answers each is (b + w / K) / n: more answers
    reduce w, the variance within prompts, but not b, the one between them, nor what the interval
    allows for the prompt that was not seen (``bounded``), one of n + 1 at the range's end.

    Args:
        samples: the answers' scores, prompt by prompt.
        ends: of the range of the scores.

    Returns:
        None if more answers alone do not decide, or no prompt has two.
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
    unseen = abs(estimate.value - ends[threshold > estimate.value]) / len(samples)
    room = len(samples) * ((distance - unseen) / z) ** 2 - between - unseen**2 * len(samples)
    if distance <= unseen or room <= 0 or within == 0:
        return None
    return max(math.ceil(per_prompt) + 1, math.floor(within / room) + 1)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
