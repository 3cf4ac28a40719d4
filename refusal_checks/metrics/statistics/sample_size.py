"""How many prompts or answers would decide a gate.

Every number assumes that the true figure is the one found, and that further prompts are of the same
kind; a new run of that size then decides with a probability of 80% (``POWER``).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from refusal_checks.metrics.statistics.intervals import Estimate

POWER = 0.8
"""Probability with which a recommended number decides: in 4 runs of 5."""

_Z_POWER = NormalDist().inv_cdf(POWER)


@dataclass(frozen=True)
class Need:
    """Numbers that would decide a gate if the figure stayed the same.

    Attributes:
        prompts: prompts in all; None if no number decides, since the figure lies on its threshold.
        samples: answers per prompt that would be enough with the same prompts; None if more answers
            alone decide nothing, or if one answer per prompt cannot tell.
    """

    prompts: int | None
    samples: int | None = None


def for_share(share: float, threshold: float, confidence: float) -> int | None:
    """The number of prompts with which a share's Wilson interval excludes the threshold.

    The interval is the inverted score test, so it excludes t if the share found is further from t
    than z sqrt(t (1 - t) / n); the share found varies by sqrt(p (1 - p) / n).
    """
    distance = abs(share - threshold)
    if distance < 1e-12:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    of_interval = z * math.sqrt(threshold * (1 - threshold))
    of_share = _Z_POWER * math.sqrt(share * (1 - share))
    return math.floor(((of_interval + of_share) / distance) ** 2) + 1


def for_mean(
    estimate: Estimate, threshold: float, quantile: float, ends: tuple[float, float]
) -> int | None:
    """The number of prompts with which a mean's interval excludes the threshold.

    Its ends are z standard errors from the mean, plus what one unseen prompt may add (``bounded``):
    the first part shrinks with 1 / sqrt(n), the second with 1 / n.

    ``quantile`` is the probability that the true mean lies below ``estimate.upper``; ``ends`` are
    those of the range of the values.
    """
    distance, n = abs(estimate.value - threshold), estimate.n
    if distance < 1e-12:
        return None
    end, limit = estimate.lower, ends[0]
    if threshold > estimate.value:
        end, limit = estimate.upper, ends[1]
    half, unseen = abs(end - estimate.value), abs(limit - estimate.value)
    z = NormalDist().inv_cdf(quantile)
    error = (z + _Z_POWER) * max(0.0, half - unseen / n) * math.sqrt(n) / z
    root = (error + math.sqrt(error**2 + 4 * distance * unseen)) / (2 * distance)
    return max(n, math.floor(root**2) + 1)


def samples_for_mean(
    estimate: Estimate,
    threshold: float,
    samples: Sequence[Sequence[float]],
    confidence: float,
    ends: tuple[float, float],
) -> int | None:
    """The number of answers per prompt with which a mean's interval excludes the threshold.

    None if more answers alone do not decide, or if no prompt has two.

    The variance of the mean of n prompts with K answers each is (b + w / K) / n: more answers
    reduce w, the variance within prompts, but not b, the variance between them, nor what the
    interval allows for one unseen prompt (``bounded``), one of n + 1, at the range's end. So
    ``samples`` has the answers' scores prompt by prompt, and ``ends`` the ends of their range.
    """
    several = [scores for scores in samples if len(scores) > 1]
    distance = abs(estimate.value - threshold)
    if not several or len(samples) < 2 or distance < 1e-12:
        return None
    within = fmean(variance(scores) for scores in several)
    per_prompt = fmean(len(scores) for scores in samples)
    variance_of_means = variance(fmean(scores) for scores in samples)
    between = max(0.0, variance_of_means - within / per_prompt)
    if within == 0:
        return None
    n, z = len(samples), NormalDist().inv_cdf((1 + confidence) / 2)
    limit = ends[1] if threshold > estimate.value else ends[0]
    unseen = abs(estimate.value - limit) / n

    def decides(count: int) -> bool:
        by_answers = within / count / n
        half = unseen + z * math.sqrt(between / n + by_answers + unseen**2)
        return half + _Z_POWER * math.sqrt(by_answers) <= distance

    most = 10_000  # beyond which nobody is told how many would do
    fewest = bisect_left(range(most), True, lo=math.ceil(per_prompt) + 1, key=decides)
    return fewest if fewest < most else None
