"""Corrects rates for a judge's errors, with its known sensitivity and specificity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from refusal_checks.core.errors import CalibrationError
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import ErrorParts


@dataclass(frozen=True, slots=True)
class JudgeErrors:
    """A judge's correct verdicts on labelled answers.

    Attributes:
        refusals, recognised: human refusals, and those that the judge calls refusals.
        compliances, passed: human compliances, and those that the judge calls compliance.
    """

    refusals: int
    recognised: int
    compliances: int
    passed: int

    @property
    def sensitivity(self) -> float:
        """Share of human refusals that the judge recognises, in [0, 1]."""
        return self.recognised / self.refusals

    @property
    def specificity(self) -> float:
        """Share of human compliances that the judge passes, in [0, 1]."""
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


def rogan_gladen(share: float, n: int, errors: JudgeErrors, confidence: float = 0.95) -> Estimate:
    """The human rate behind a judge's rate, within [0, 1].

    The value is (share + specificity - 1) / (sensitivity + specificity - 1). The interval is Lang
    and Reiczigel's, which includes the uncertainty of all three shares. It is a closed form, so
    equal input gives equal intervals, and it holds if the labelled answers show no error of one
    kind; a bootstrap fails then, since it resamples a specificity of 1 as 1.

    No judge with these errors has a rate outside [1 - specificity, sensitivity]. A share that is
    outside by chance gets the interval of the nearest possible one, never a narrower one; a share
    that chance does not explain is an error.

    Args:
        share: of n answers (or prompts), those that the judge calls refusals, in [0, 1].

    Raises:
        CalibrationError: see ``require_information``; or the errors were measured on answers
            unlike these.

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
    value = _clipped(point_estimate(share, errors))
    near_low, near_high = _interval(nearest, n, errors, confidence)
    lower, upper = _clipped(min(low, near_low)), _clipped(max(high, near_high))
    return Estimate(value, min(lower, value), max(upper, value), n)


def _interval(share: float, n: int, errors: JudgeErrors, confidence: float) -> tuple[float, float]:
    """Lang and Reiczigel's interval, not clipped."""
    z2 = _z(confidence) ** 2
    (sens, n_sens), (spec, n_spec) = _adjusted(errors)
    raw, youden = (n * share + z2 / 2) / (n + z2), sens + spec - 1
    rate = (raw + spec - 1) / youden
    shift = rate * sens * (1 - sens) / n_sens - (1 - rate) * spec * (1 - spec) / n_spec
    parts = error_parts(rate, n, errors, confidence)
    half = _z(confidence) * math.sqrt(parts.labels + parts.prompts)
    return rate + 2 * z2 * shift - half, rate + 2 * z2 * shift + half


def error_parts(rate: float, n: int, errors: JudgeErrors, confidence: float = 0.95) -> ErrorParts:
    """What the calibration's labels and the run's prompts contribute to the squared error.

    Args:
        rate: the human rate.
    """
    (sens, n_sens), (spec, n_spec) = _adjusted(errors)
    youden = sens + spec - 1
    raw = rate * youden + 1 - spec
    return ErrorParts(
        labels=(rate**2 * sens * (1 - sens) / n_sens + (1 - rate) ** 2 * spec * (1 - spec) / n_spec)
        / youden**2,
        prompts=max(0.0, raw * (1 - raw)) / (n + _z(confidence) ** 2) / youden**2,
        count=errors.refusals + errors.compliances,
    )


def point_estimate(share: float, errors: JudgeErrors) -> float:
    """Rogan and Gladen's estimate, not clipped."""
    excess = share + errors.specificity - 1
    return excess / (errors.sensitivity + errors.specificity - 1)


def _adjusted(errors: JudgeErrors) -> tuple[tuple[float, int], tuple[float, int]]:
    """Sensitivity and specificity with one success and one failure added, each with its size."""
    refusals, compliances = errors.refusals + 2, errors.compliances + 2
    return (
        ((errors.recognised + 1) / refusals, refusals),
        ((errors.passed + 1) / compliances, compliances),
    )


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _clipped(value: float) -> float:
    return min(1.0, max(0.0, value))
