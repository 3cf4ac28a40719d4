"""How many prompts would decide a gate.

Every number assumes that the true figure is the one found, and that further prompts are of the same
kind; a new run of that size then decides with a probability of 80% (``POWER``).
"""

import math
from statistics import NormalDist

from refusal_checks.metrics.statistics.intervals import Estimate

POWER = 0.8
"""Probability with which a recommended number decides, in 4 runs of 5: the usual power of a study
(J. Cohen, "Statistical power analysis for the behavioral sciences", 1988, page 56)."""

_Z_POWER = NormalDist().inv_cdf(POWER)


def prompts_for_share(share: float, threshold: float, confidence: float) -> int | None:
    """The number of prompts with which a share's Wilson interval excludes the threshold.

    The interval is the inverted score test, so it excludes t if the share found is further from t
    than z sqrt(t (1 - t) / n); the share found varies by sqrt(p (1 - p) / n).
    """
    # sqrt(n) x distance must exceed both spreads: of the interval, and of the share found.
    distance = abs(share - threshold)
    if distance < 1e-12:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    of_interval = z * math.sqrt(threshold * (1 - threshold))
    of_share = _Z_POWER * math.sqrt(share * (1 - share))
    return math.floor(((of_interval + of_share) / distance) ** 2) + 1


def prompts_for_mean(
    estimate: Estimate, threshold: float, quantile: float, ends: tuple[float, float]
) -> int | None:
    """The number of prompts with which a mean's interval excludes the threshold.

    Its ends are z standard errors from the mean, plus what one unseen prompt may add (``bounded``):
    the first part shrinks with 1 / sqrt(n), the second with 1 / n.

    ``quantile`` is the probability that the true mean lies below ``estimate.upper``; ``ends`` are
    those of the range of the values.
    """
    distance, n = abs(estimate.value - threshold), estimate.n
    # The width of an interval at a level of 50% says nothing of the spread.
    if distance < 1e-12 or quantile <= 0.5:
        return None
    end, limit = estimate.lower, ends[0]
    if threshold > estimate.value:
        end, limit = estimate.upper, ends[1]
    half, unseen = abs(end - estimate.value), abs(limit - estimate.value)
    z = NormalDist().inv_cdf(quantile)
    error = (z + _Z_POWER) * max(0.0, half - unseen / n) * math.sqrt(n) / z
    # n x distance = error x sqrt(n) + unseen, a quadratic in sqrt(n).
    root = (error + math.sqrt(error**2 + 4 * distance * unseen)) / (2 * distance)
    return max(n, math.floor(root**2) + 1)
