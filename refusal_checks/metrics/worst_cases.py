"""What a figure could be if the answers without a verdict had one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, cycle

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import EXTREMES, Invalid, Valid
from refusal_checks.metrics.base import METRICS, Metric, by_prompt


def worst_cases(metric: Metric, records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records with every invalid judgement replaced so that the figure is extreme.

    In the first case all count as one extreme verdict, in the second as the other, and the cases
    are named by these verdicts; of a ``mixed`` metric they are each prompt's lowest and highest
    scores. An answer keeps its likelihood, by which it would weigh if it had a verdict; where
    these differ, the figure over the valid answers may lie outside the two cases.

    Returns:
        Nothing if no answer is invalid, if none is valid, or if the metric is not ``blurred``.
    """
    valid = [r.judgement for r in records if not isinstance(r.judgement, Invalid)]
    if not metric.blurred or not valid or len(valid) == len(records):
        return {}
    extremes = EXTREMES[type(valid[0])]
    if not metric.mixed:
        return {name: _judged(records, [verdict]) for name, verdict in extremes.items()}
    ranges = [_by_score(metric, answers, extremes) for answers in by_prompt(records).values()]
    lowest, highest = (chain.from_iterable(cases) for cases in zip(*ranges, strict=True))
    return {"the lowest": list(lowest), "the highest": list(highest)}


def _by_score(
    metric: Metric, answers: Sequence[Record], extremes: Mapping[str, Valid]
) -> tuple[Sequence[Record], Sequence[Record]]:
    """A prompt's records with its invalid answers judged for its lowest and its highest score."""
    unknown = sum(isinstance(record.judgement, Invalid) for record in answers)
    low, high = extremes.values()
    mixes = [
        _judged(answers, [first] * count + [second] * (unknown - count) or [low])
        for first, second in ((low, high), (high, low))
        for count in range(unknown + 1)
    ]
    scored = sorted(
        ((score, mix) for mix in mixes if (score := metric.score(mix)) is not None),
        key=lambda pair: pair[0],
    )
    return (scored[0][1], scored[-1][1]) if scored else (answers, answers)


def _judged(records: Sequence[Record], verdicts: Sequence[Valid]) -> list[Record]:
    """The records with their invalid judgements replaced by these, in turn and over again."""
    turn = cycle(verdicts)
    return [
        replace(record, judgement=next(turn)) if isinstance(record.judgement, Invalid) else record
        for record in records
    ]


def score_limits(records: Sequence[Record]) -> dict[str, dict[str, tuple[float, float]]]:
    """The lowest and the highest score of each prompt with an invalid answer.

    Returns:
        By metric and prompt id; without a metric that invalid answers do not move, and without a
        prompt that has no score however its answers are judged.
    """
    valid = next((r for r in records if not isinstance(r.judgement, Invalid)), None)
    doubtful = {r.prompt.id for r in records if isinstance(r.judgement, Invalid)}
    if valid is None or not doubtful:
        return {}
    seen = [r for r in records if r.prompt.id in doubtful or r is valid]
    limits = {name: metric_limits(metric, seen) for name, metric in METRICS.items()}
    return {name: by_id for name, by_id in limits.items() if by_id}


def metric_limits(metric: Metric, records: Sequence[Record]) -> dict[str, tuple[float, float]]:
    """See ``score_limits``; of one metric, by prompt id."""
    doubtful = {r.prompt.id for r in records if isinstance(r.judgement, Invalid)}
    cases = [metric.scores(case) for case in worst_cases(metric, records).values()]
    found = {name: [case[name] for case in cases if name in case] for name in doubtful}
    return {name: (min(scores), max(scores)) for name, scores in found.items() if scores}
