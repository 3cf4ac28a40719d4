"""How much a judge disagrees with itself when it judges the same answers again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.metrics import Metric
from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class Noise:
    """Judge noise in one gate's figure.

    Attributes:
        repeats: how often each answer was judged.
        answers: number of answers with a verdict in at least two repeats.
        flipped: number of these with differing verdicts.
        deviation: standard deviation of the figure over the repeats.
        of_interval: its square as a share of the interval's variance, in [0, 1].
    """

    repeats: int
    answers: int
    flipped: int
    deviation: float
    of_interval: float


def noise(
    metric: Metric, repeats: Sequence[Sequence[Record]], estimate: Estimate, level: float
) -> Noise | None:
    """The noise in a figure; None if fewer than two repeats have the figure.

    Args:
        repeats: the records that the figure is computed from, as judged each time.
        estimate: the figure with its interval at that level.
    """
    values = [value for records in repeats if (value := _value(metric, records)) is not None]
    if len(values) < 2:
        return None
    verdicts: dict[tuple[str, int], list[str]] = {}
    for records in repeats:
        for record in records:
            if not isinstance(record.judgement, Invalid):
                answer = (record.prompt.id, record.sample)
                verdicts.setdefault(answer, []).append(record.judgement.verdict)
    several = [given for given in verdicts.values() if len(given) > 1]
    deviation = stdev(values)
    half = (estimate.upper - estimate.lower) / 2
    error = half / NormalDist().inv_cdf((1 + level) / 2)
    return Noise(
        repeats=len(repeats),
        answers=len(several),
        flipped=sum(len(set(given)) > 1 for given in several),
        deviation=deviation,
        of_interval=min(1.0, (deviation / error) ** 2) if error else 0.0,
    )


def _value(metric: Metric, records: Sequence[Record]) -> float | None:
    try:
        return metric.estimate(records).value
    except EvaluationError:
        return None
