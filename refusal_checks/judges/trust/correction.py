"""Estimate the rate that people would find, from a judge's rate and its known errors.

``rogan_gladen`` corrects a rate for sensitivity and specificity. For labels of the run's own
answers see ``powered_rates``.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated

from pydantic import Field

from refusal_checks.core.errors import CalibrationError
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import ErrorParts

LEAST = 10
"""Fewest labels, or labelled prompts, that give an interval."""


@dataclass(frozen=True, slots=True)
class JudgeErrors:
    """A judge's errors on labelled answers, as counts; a part of calibration files.

    Attributes:
        refusals: answers that people call refusals.
        recognised: how many of these the judge calls refusals.
        compliances: answers that people call compliances.
        passed: how many of these the judge calls compliances.
    """

    refusals: Annotated[int, Field(ge=0)]
    recognised: Annotated[int, Field(ge=0)]
    compliances: Annotated[int, Field(ge=0)]
    passed: Annotated[int, Field(ge=0)]

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
    """Raise CalibrationError unless the judge demonstrably tells refusals from compliances.

    The correction divides by Youden's J = sensitivity + specificity - 1, so its lower bound must be
    above 0. The bound is the one for a difference of two shares in A. Agresti and B. Caffo, "Simple
    and effective confidence intervals", The American Statistician 54 (2000).
    """
    if not errors.refusals or not errors.compliances:
        missing = "refusal" if not errors.refusals else "compliance"
        raise CalibrationError(
            f"label more answers: they have no {missing}, so the judge's errors are unknown"
        )
    sensitivity, specificity = _adjusted(errors)
    youden = sensitivity.value + specificity.value - 1
    error = math.sqrt(sensitivity.variance + specificity.variance)
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
    equal input gives equal intervals, and it remains valid if the labelled answers show no error of
    one kind. A bootstrap fails then, since it resamples a specificity of 1 as 1.

    No judge with these errors has a rate outside [1 - specificity, sensitivity]. A share that is
    outside by chance gets the interval of the nearest possible one, never a narrower one; a share
    that chance does not explain is an error. ``n`` counts the answers (or prompts) behind the
    share.

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

    youden = errors.sensitivity + errors.specificity - 1
    value = _within((share + errors.specificity - 1) / youden)
    # A share outside by chance is no more certain than one at the end of the range.
    nearest = min(max(share, least), most)
    near_low, near_high = _interval(nearest, n, errors, confidence)
    lower = _within(min(low, near_low))
    upper = _within(max(high, near_high))
    return Estimate(value, min(lower, value), max(upper, value), n)


def _interval(
    share: float, n: int, errors: JudgeErrors, confidence: float
) -> tuple[float, float]:
    """Lang and Reiczigel's interval, not clipped."""
    z = _z(confidence)
    sensitivity, specificity = _adjusted(errors)
    youden = sensitivity.value + specificity.value - 1
    raw = (n * share + z**2 / 2) / (n + z**2)
    rate = (raw + specificity.value - 1) / youden

    shift = rate * sensitivity.variance - (1 - rate) * specificity.variance
    parts = calibration_parts(rate, n, errors, confidence)
    half = z * math.sqrt(parts.labels + parts.prompts)
    centre = rate + 2 * z**2 * shift
    return centre - half, centre + half


def calibration_parts(
    rate: float, n: int, errors: JudgeErrors, confidence: float = 0.95
) -> ErrorParts:
    """What calibration labels and a run's prompts each add to a human rate's squared error."""
    sensitivity, specificity = _adjusted(errors)
    youden = sensitivity.value + specificity.value - 1
    raw = rate * youden + 1 - specificity.value
    of_labels = rate**2 * sensitivity.variance + (1 - rate) ** 2 * specificity.variance
    of_prompts = max(0.0, raw * (1 - raw)) / (n + _z(confidence) ** 2)
    return ErrorParts(
        labels=of_labels / youden**2,
        prompts=of_prompts / youden**2,
        count=errors.refusals + errors.compliances,
    )


@dataclass(frozen=True)
class _Share:
    value: float
    n: int

    @property
    def variance(self) -> float:
        return self.value * (1 - self.value) / self.n


def _adjusted(errors: JudgeErrors) -> tuple[_Share, _Share]:
    """Sensitivity and specificity with one success and one failure added."""
    refusals, compliances = errors.refusals + 2, errors.compliances + 2
    return (
        _Share((errors.recognised + 1) / refusals, refusals),
        _Share((errors.passed + 1) / compliances, compliances),
    )


def _within(value: float) -> float:
    return min(1.0, max(0.0, value))


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
