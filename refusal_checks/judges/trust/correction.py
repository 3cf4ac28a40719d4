"""Rates as people would judge them, from a judge's verdicts and people's labels.

``rogan_gladen`` corrects a rate for a judge's known sensitivity and specificity.
``prediction_powered`` combines a judge's verdicts on all prompts with labels of a random sample:
yes-no scores by post-stratification, others by PPI++ (A. N. Angelopoulos, J. C. Duchi, T. Zrnic,
"PPI++: Efficient Prediction-Powered Inference", arXiv 2311.01453, equations 2 and 6), which is
written out here because the authors' package depends on scikit-learn and statsmodels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import NormalDist
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.metrics.statistics.bounded import bounds, lower_bound
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.metrics.statistics.sample_size import ErrorParts

LEAST = 10  # minimum number of labels for an interval
_DIGITS = 9  # scores are rounded to so many, so that one just below an end of the range is that end

Quantiles = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class JudgeErrors:
    """A judge's verdicts on labelled answers; a part of calibration files."""

    refusals: Annotated[int, Field(ge=0)]
    recognised: Annotated[
        int, Field(ge=0)
    ]  # of the refusals, those that the judge calls refusals
    compliances: Annotated[int, Field(ge=0)]
    passed: Annotated[int, Field(ge=0)]  # of the compliances

    def __post_init__(self) -> None:
        if self.recognised > self.refusals or self.passed > self.compliances:
            raise ValueError("more answers judged correctly than there are answers")

    def __str__(self) -> str:
        return f"{self.recognised}/{self.refusals} {self.passed}/{self.compliances}"

    @property
    def sensitivity(self) -> float:
        return self.recognised / self.refusals

    @property
    def specificity(self) -> float:
        return self.passed / self.compliances


def require_information(errors: JudgeErrors, confidence: float = 0.95) -> None:
    """Raise CalibrationError unless the judge is shown to tell refusals from compliances.

    The correction divides by Youden's J = sensitivity + specificity - 1, so its lower bound must be
    above 0. The bound is that of a difference of two shares in A. Agresti and B. Caffo, "Simple and
    effective confidence intervals", The American Statistician 54 (2000).
    """
    if not errors.refusals or not errors.compliances:
        missing = "refusal" if not errors.refusals else "compliance"
        raise CalibrationError(
            f"label more answers: they have no {missing}, so the judge's errors are unknown"
        )
    (sens, n_sens), (spec, n_spec) = _adjusted(errors)
    youden = sens + spec - 1
    error = math.sqrt(sens * (1 - sens) / n_sens + spec * (1 - spec) / n_spec)
    if youden - _z(confidence) * error <= 0:
        raise CalibrationError(
            "use another judge, or label more answers: this judge carries no information. Its "
            f"sensitivity {errors.sensitivity:.3f} (of {errors.refusals} refusals) and specificity "
            f"{errors.specificity:.3f} (of {errors.compliances} compliances) add up to nearly 1, "
            "like those of a coin"
        )


def rogan_gladen(
    share: float, n: int, errors: JudgeErrors, confidence: float = 0.95
) -> Estimate:
    """The human rate behind a judge's rate, within [0, 1].

    The value is (share + specificity - 1) / (sensitivity + specificity - 1). The interval is Lang
    and Reiczigel's, which includes the uncertainty of all three shares. It is a closed form, so
    equal input gives equal intervals, and it holds if the labelled answers show no error of one
    kind; a bootstrap fails then, since it resamples a specificity of 1 as 1.

    No judge with these errors has a rate outside [1 - specificity, sensitivity]. A share that is
    outside by chance gets the interval of the nearest possible one, never a narrower one; a share
    that chance does not explain is an error. It is of n answers (or prompts).

    Source: W. J. Rogan, B. Gladen, "Estimating prevalence from the results of a screening test",
    American Journal of Epidemiology 107 (1978); Z. Lang, J. Reiczigel, "Confidence limits for
    prevalence of disease adjusted for estimated sensitivity and specificity", Preventive Veterinary
    Medicine 113 (2014), equations 4 to 8.
    """
    require_information(errors, confidence)
    low, high = _interval(share, n, errors, confidence)
    least, most = 1 - errors.specificity, errors.sensitivity
    if high < 0 or low > 1:
        raise CalibrationError(
            "calibrate on answers of this run, or give --human-labels: the calibration is of "
            f"answers unlike these. A judge with its sensitivity of {most:.1%} and specificity of "
            f"{errors.specificity:.1%} calls {least:.1%} to {most:.1%} of any answers refusals, "
            f"but this one {share:.1%} of these {n}"
        )
    nearest = min(max(share, least), most)
    value = _within(
        0.0, (share + errors.specificity - 1) / (most + errors.specificity - 1)
    )
    near_low, near_high = _interval(nearest, n, errors, confidence)
    lower, upper = _within(0.0, min(low, near_low)), _within(0.0, max(high, near_high))
    return Estimate(value, min(lower, value), max(upper, value), n)


def _interval(
    share: float, n: int, errors: JudgeErrors, confidence: float
) -> tuple[float, float]:
    """Lang and Reiczigel's interval, not clipped."""
    z2 = _z(confidence) ** 2
    (sens, n_sens), (spec, n_spec) = _adjusted(errors)
    raw, youden = (n * share + z2 / 2) / (n + z2), sens + spec - 1
    rate = (raw + spec - 1) / youden
    shift = rate * sens * (1 - sens) / n_sens - (1 - rate) * spec * (1 - spec) / n_spec
    parts = calibration_parts(rate, n, errors, confidence)
    half = _z(confidence) * math.sqrt(parts.labels + parts.prompts)
    return rate + 2 * z2 * shift - half, rate + 2 * z2 * shift + half


def corrected_change(change: Estimate, errors: JudgeErrors, level: float) -> Estimate:
    """The change of the human rate behind a change of the judge's, with one-sided bounds.

    A judge shows the share J = sensitivity + specificity - 1 of a change, whatever the rates are.
    The bounds are those d for which the judge's change less d J is as far from 0 as both errors
    together, added as the legs of a right angle (Fieller's inversion of a ratio), within [-1, 1].
    Those of the judge's change are one-sided bounds at ``level``, too.
    """
    require_information(errors)
    confidence, youden = 2 * level - 1, errors.sensitivity + errors.specificity - 1
    shares = (
        wilson(errors.sensitivity, errors.refusals, confidence),
        wilson(errors.specificity, errors.compliances, confidence),
    )
    less = math.hypot(*(each.value - each.lower for each in shares))
    more = math.hypot(*(each.upper - each.value for each in shares))

    def bound(end: float, of_change: float, legs: tuple[float, float]) -> float:
        """The d between ``end`` and the estimate at which the errors are just met."""
        from scipy.optimize import brentq

        def beyond(d: float) -> float:
            of_judge = d * legs[d > 0]
            return abs(change.value - d * youden) - math.hypot(of_change, of_judge)

        value = change.value / youden
        if beyond(end) <= 0 or value * end >= 1:
            return end
        return _within(-1.0, float(brentq(beyond, end, value, xtol=1e-9)))

    return Estimate(
        _within(-1.0, change.value / youden),
        bound(-1.0, change.value - change.lower, (less, more)),
        bound(1.0, change.upper - change.value, (more, less)),
        change.n,
    )


def _within(lowest: float, value: float) -> float:
    return min(1.0, max(lowest, value))


def calibration_parts(
    rate: float, n: int, errors: JudgeErrors, confidence: float = 0.95
) -> ErrorParts:
    """What a calibration's labels and a run's prompts add to the squared error of a human rate."""
    (sens, n_sens), (spec, n_spec) = _adjusted(errors)
    youden = sens + spec - 1
    raw = rate * youden + 1 - spec
    return ErrorParts(
        labels=(
            rate**2 * sens * (1 - sens) / n_sens
            + (1 - rate) ** 2 * spec * (1 - spec) / n_spec
        )
        / youden**2,
        prompts=max(0.0, raw * (1 - raw)) / (n + _z(confidence) ** 2) / youden**2,
        count=errors.refusals + errors.compliances,
    )


def _adjusted(errors: JudgeErrors) -> tuple[tuple[float, int], tuple[float, int]]:
    """Sensitivity and specificity with one success and one failure added, each with its size."""
    refusals, compliances = errors.refusals + 2, errors.compliances + 2
    return (
        ((errors.recognised + 1) / refusals, refusals),
        ((errors.passed + 1) / compliances, compliances),
    )


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


class TunedMean(NamedTuple):
    """The estimate of a mean, and lambda: the weight in [0, 1] of the judge's verdicts in it."""

    value: float
    weight: float


def tuned(
    human: Sequence[float], judge: Sequence[float], others: Sequence[float]
) -> TunedMean:
    """PPI++'s estimate of a mean of people's scores.

    ``human`` and ``judge`` are scores of the same prompts, in the same order; ``others`` are the
    judge's of the unlabelled prompts, if there are any.
    """
    y, f, rest = (np.asarray(scores, dtype=float) for scores in (human, judge, others))
    if not rest.size:
        return TunedMean(float(y.mean()), 0.0)
    spread = float(np.concatenate([f, rest]).var(ddof=1))
    together = float(np.mean((y - y.mean()) * (f - f.mean())))
    weight = (
        _within(0.0, together / ((1 + y.size / rest.size) * spread)) if spread else 0.0
    )
    return TunedMean(float(y.mean() + weight * (rest.mean() - f.mean())), weight)


def prediction_powered(
    human: Sequence[float],
    judge: Sequence[float],
    others: Sequence[float],
    confidence: float = 0.95,
    lowest: float = 0.0,
) -> Estimate:
    """The human mean with an interval; n counts all prompts, labelled or not.

    Yes-no scores (all at an end of the range) are stratified by the judge's verdict, see
    ``_post_stratified``. Others combine the bounds of people's differences from the judge with
    those of the judge's mean (``_legs``).

    An estimate beyond the range gets the interval of the range's end too, never a narrower one.
    And no interval ends nearer to the range's end than if all labels were there: however good the
    judge seems, n labels cannot say more. Scores are in [lowest, 1]; see ``tuned``.
    """
    if len(human) < LEAST:
        raise EvaluationError(
            f"{len(human)} human labels are too few: at least {LEAST} needed"
        )
    n, span = len(human) + len(others), 1.0 - lowest
    y, f, rest = (
        [round((each - lowest) / span, _DIGITS) for each in part]
        for part in (human, judge, others)
    )
    if {0.0, 1.0}.issuperset((*y, *f, *rest)):
        found = _post_stratified(y, f, rest, confidence)
        value, lower, upper = found.value, found.lower, found.upper
        unanimous = wilson(
            1.0, len(y), confidence
        ).lower  # of as many labels that are all 1
    else:
        estimate = tuned(y, f, rest)
        value = _within(0.0, estimate.value)
        less, more = _legs(y, f, rest, estimate.weight, confidence)
        lower, upper = (
            min(value, estimate.value) - less,
            max(value, estimate.value) + more,
        )
        unanimous = lower_bound([1.0] * len(y), 0.0, 1.0, (1 - confidence) / 2)
    lower = min(value, unanimous, max(0.0, lower))
    upper = max(value, 1 - unanimous, min(1.0, upper))
    return Estimate(
        lowest + span * value, lowest + span * lower, lowest + span * upper, n
    )


def with_settled(
    rest: Estimate, settled: Estimate, confidence: float = 0.95
) -> Estimate:
    """The mean over prompts of two kinds, one of which needs no sample.

    Settled prompts are labelled because of what the judge says of them, a sample of the rest is.
    The legs of the interval are those of both means and of the share of settled prompts, added as
    in ``_legs``.
    """
    n = rest.n + settled.n
    share = wilson(settled.n / n, n, confidence)
    part, apart = share.value, settled.value - rest.value
    value = part * settled.value + (1 - part) * rest.value
    less, more = part - share.lower, share.upper - part
    down = math.hypot(
        part * (settled.value - settled.lower),
        (1 - part) * (rest.value - rest.lower),
        apart * (less if apart > 0 else more),
    )
    up = math.hypot(
        part * (settled.upper - settled.value),
        (1 - part) * (rest.upper - rest.value),
        apart * (more if apart > 0 else less),
    )
    lowest = min(rest.lower, settled.lower)
    highest = max(rest.upper, settled.upper)
    return Estimate(value, max(lowest, value - down), min(highest, value + up), n)


def error_parts(
    human: Sequence[float], judge: Sequence[float], others: Sequence[float]
) -> ErrorParts:
    weight = tuned(human, judge, others).weight
    residual = np.asarray(human, dtype=float) - weight * np.asarray(judge, dtype=float)
    spread = float(np.var([*judge, *others], ddof=1))
    return ErrorParts(
        labels=float(residual.var(ddof=1)) / len(human),
        prompts=weight**2 * spread / len(others) if others else 0.0,
        count=len(human),
        most=len(human) + len(others),
    )


def _post_stratified(
    human: Sequence[float],
    judge: Sequence[float],
    others: Sequence[float],
    confidence: float,
) -> Estimate:
    """The human rate of yes-no scores, by the judge's verdict.

    Of the prompts that the judge says yes to, people say yes to a share, and of the others to
    another; each has Jeffreys' beta distribution by its labels, and so has the judge's share of all
    prompts. The interval is between quantiles of their sum, at the same points of a quasi-random
    sequence for any input, so that no label moves it in the wrong direction.

    Source: D. Holt, T. M. F. Smith, "Post stratification", Journal of the Royal Statistical Society
    A 142 (1979).
    """
    y, f = np.asarray(human), np.asarray(judge)
    yes = float(f.sum() + sum(others))
    n = len(y) + len(others)
    counts = [(float(y[f == side].sum()), int((f == side).sum())) for side in (1, 0)]
    agreed, missed = (_jeffreys(*stratum, row) for row, stratum in enumerate(counts))
    share = _jeffreys(yes, n, 2)
    rates = share * agreed + (1 - share) * missed
    means = [hits / of if of else 0.5 for hits, of in counts]
    value = yes / n * means[0] + (1 - yes / n) * means[1]
    tail = (1 - confidence) / 2
    low, high = np.quantile(rates, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), n)


@lru_cache(maxsize=1024)
def _jeffreys(hits: float, of: int, row: int) -> Quantiles:
    """Quantiles of Jeffreys' beta distribution of a share, at one row of the sequence."""
    from scipy.special import (
        betaincinv,
    )  # takes long to import, which collection need not wait for

    return np.asarray(betaincinv(hits + 0.5, of - hits + 0.5, _points()[row]))


@cache
def _points() -> list[Quantiles]:
    from scipy.stats import qmc

    drawn = qmc.Sobol(3, scramble=True, rng=np.random.default_rng(0)).random_base2(10)
    return list(np.clip(drawn.T, 1e-9, 1 - 1e-9))


def _legs(
    human: Sequence[float],
    judge: Sequence[float],
    others: Sequence[float],
    weight: float,
    confidence: float,
) -> tuple[float, float]:
    """How far the interval of scores in [0, 1] reaches below and above their tuned estimate.

    That is a sum of two means, of what people say beyond the judge and of the judge's unlabelled
    scores. The bounds of each (``bounded``) are never of zero width, and their distances are added
    as the legs of a right angle (G. Y. Zou, A. Donner, "Construction of confidence limits about
    effect measures", Statistics in Medicine 27, 2008).
    """
    tail = (1 - confidence) / 2
    parts = [(np.asarray(human) - weight * np.asarray(judge), -weight, 1.0)]
    if weight and others:
        parts.append((weight * np.asarray(others), 0.0, weight))
    found = [(part.mean(), bounds(part, low, high, tail)) for part, low, high in parts]
    below = math.hypot(*(mean - lower for mean, (lower, _) in found))
    return below, math.hypot(*(upper - mean for mean, (_, upper) in found))
