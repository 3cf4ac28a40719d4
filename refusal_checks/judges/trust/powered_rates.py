"""Estimate rates from a judge's verdicts on all prompts and people's labels of a random sample.

Yes-no scores are post-stratified; others use PPI++ (A. N. Angelopoulos, J. C. Duchi, T. Zrnic,
"PPI++: Efficient Prediction-Powered Inference", arXiv 2311.01453, equations 2 and 6), which is
implemented here because the authors' package depends on scikit-learn and statsmodels.
"""

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.labelling import LEAST
from refusal_checks.metrics.statistics.bounded import bounds, lower_bound
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.metrics.statistics.sample_size import ErrorParts

# Scores are rounded to so many digits: one just below an end of the range is that end.
_DIGITS = 9

Quantiles = np.ndarray[tuple[int], np.dtype[np.float64]]


class TunedMean(NamedTuple):
    """An estimated mean, and lambda: the weight, in [0, 1], of the judge's verdicts in it."""

    value: float
    weight: float


def tuned(
    human: Sequence[float], judge: Sequence[float], others: Sequence[float]
) -> TunedMean:
    """PPI++'s estimate of a mean of people's scores.

    ``human`` and ``judge`` score the same prompts, in the same order; ``others`` are the judge's
    scores of the unlabelled prompts, if any.
    """
    y, f, rest = (np.asarray(scores, dtype=float) for scores in (human, judge, others))
    if not rest.size:
        return TunedMean(float(y.mean()), 0.0)

    weight = 0.0
    spread = float(np.concatenate([f, rest]).var(ddof=1))
    if spread:
        together = float(np.mean((y - y.mean()) * (f - f.mean())))
        weight = together / ((1 + y.size / rest.size) * spread)
        weight = min(1.0, max(0.0, weight))
    return TunedMean(float(y.mean() + weight * (rest.mean() - f.mean())), weight)


def prediction_powered(
    human: Sequence[float],
    judge: Sequence[float],
    others: Sequence[float],
    confidence: float = 0.95,
    lowest: float = 0.0,
) -> Estimate:
    """Estimate the human mean with an interval; n counts all prompts, labelled or not.

    Yes-no scores (of labelled prompts, all at an end of the range) are stratified by the judge's
    verdict, see ``_post_stratified``. Others combine the bounds of people's differences from the
    judge with those of the judge's mean (``_legs``).

    An estimate beyond the range gets an interval that covers that of the range's end, never a
    narrower one. No interval ends nearer to the range's end than if all prompts were labelled:
    however good the judge seems, n labels cannot say more. Scores are in [lowest, 1]; see
    ``tuned``.

    Raises:
        EvaluationError: there are fewer than ``LEAST`` labels.
    """
    if len(human) < LEAST:
        raise EvaluationError(
            f"{len(human)} human labels are too few: at least {LEAST} needed"
        )

    span = 1.0 - lowest
    y, f, rest = (
        [round((score - lowest) / span, _DIGITS) for score in scores]
        for scores in (human, judge, others)
    )
    if {0.0, 1.0}.issuperset((*y, *f)):
        stratified = _post_stratified(y, f, rest, confidence)
        value, lower, upper = stratified.value, stratified.lower, stratified.upper
        # The lower bound of as many labels that are all 1.
        unanimous = wilson(1.0, len(y), confidence).lower
    else:
        estimate = tuned(y, f, rest)
        value = min(1.0, max(0.0, estimate.value))
        less, more = _legs(y, f, rest, estimate.weight, confidence)
        lower = min(value, estimate.value) - less
        upper = max(value, estimate.value) + more
        unanimous = lower_bound([1.0] * len(y), 0.0, 1.0, (1 - confidence) / 2)

    lower = min(value, unanimous, max(0.0, lower))
    upper = max(value, 1 - unanimous, min(1.0, upper))
    return Estimate(
        lowest + span * value,
        lowest + span * lower,
        lowest + span * upper,
        len(human) + len(others),
    )


def error_parts(
    human: Sequence[float], judge: Sequence[float], others: Sequence[float]
) -> ErrorParts:
    """What labels and unlabelled prompts each add to the squared error of the human mean."""
    weight = tuned(human, judge, others).weight
    # The judge explains a part of what people say; labels are spent on the rest.
    residual = np.asarray(human, dtype=float) - weight * np.asarray(judge, dtype=float)
    of_prompts = 0.0
    if others:
        of_prompts = weight**2 * float(np.var([*judge, *others], ddof=1)) / len(others)
    return ErrorParts(
        labels=float(residual.var(ddof=1)) / len(human),
        prompts=of_prompts,
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

    People say yes to one share of the prompts that the judge says yes to, and to another share of
    the rest. Each share gets Jeffreys' beta distribution from its labels, and so does the judge's
    share of yes among all prompts. The interval lies between quantiles of the combined rate, at the
    same points of a quasi-random sequence for any input, so that no label moves it in the wrong
    direction.

    Source: D. Holt, T. M. F. Smith, "Post stratification", Journal of the Royal Statistical Society
    A 142 (1979).
    """
    y, f = np.asarray(human), np.asarray(judge)
    n = len(y) + len(others)
    yes = float(f.sum() + sum(others))

    # Of the labelled prompts to which the judge says yes, and of the others: yes by people, of all.
    hits_of_yes, of_yes = float(y[f == 1].sum()), int((f == 1).sum())
    hits_of_no, of_no = float(y[f == 0].sum()), int((f == 0).sum())
    agreed = _jeffreys(hits_of_yes, of_yes, 0)
    missed = _jeffreys(hits_of_no, of_no, 1)
    share = _jeffreys(yes, n, 2)
    rates = share * agreed + (1 - share) * missed

    # A side without labels could be anything.
    mean_of_yes = hits_of_yes / of_yes if of_yes else 0.5
    mean_of_no = hits_of_no / of_no if of_no else 0.5
    value = yes / n * mean_of_yes + (1 - yes / n) * mean_of_no
    tail = (1 - confidence) / 2
    low, high = np.quantile(rates, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), n)


@lru_cache(maxsize=1024)
def _jeffreys(hits: float, of: int, row: int) -> Quantiles:
    """Quantiles of Jeffreys' beta distribution for a share, at one row of the sequence."""
    # Takes long to import, which collection need not wait for.
    from scipy.special import betaincinv

    return np.asarray(betaincinv(hits + 0.5, of - hits + 0.5, _points()[row]))


@cache
def _points() -> list[Quantiles]:
    from scipy.stats import qmc

    # Seeded, so that equal input gives equal intervals.
    drawn = qmc.Sobol(3, scramble=True, rng=np.random.default_rng(0)).random_base2(10)
    return list(np.clip(drawn.T, 1e-9, 1 - 1e-9))


def _legs(
    human: Sequence[float],
    judge: Sequence[float],
    others: Sequence[float],
    weight: float,
    confidence: float,
) -> tuple[float, float]:
    """How far the interval for scores in [0, 1] reaches below and above their tuned estimate.

    The estimate is a sum of two means: of the people's differences from the judge, and of the
    judge's unlabelled scores. The bounds of each (``bounded``) never have zero width, and their
    distances are added in quadrature (G. Y. Zou, A. Donner, "Construction of confidence limits
    about effect measures", Statistics in Medicine 27, 2008).
    """
    tail = (1 - confidence) / 2
    differences = np.asarray(human) - weight * np.asarray(judge)
    parts = [(differences, -weight, 1.0)]
    if weight and others:
        parts.append((weight * np.asarray(others), 0.0, weight))

    below, above = [], []
    for scores, low, high in parts:
        mean = scores.mean()
        lower, upper = bounds(scores, low, high, tail)
        below.append(mean - lower)
        above.append(upper - mean)
    return math.hypot(*below), math.hypot(*above)
