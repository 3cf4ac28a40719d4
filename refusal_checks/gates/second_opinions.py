"""The rate that the second judge of a cascade would find, from all that it read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.rate_views import RateView, Scores, powered, spread, without_clusters
from refusal_checks.judges.cascade import SecondOpinions
from refusal_checks.judges.trust.label_draw import is_answered
from refusal_checks.judges.trust.prediction_powered import LEAST, with_settled
from refusal_checks.metrics import METRICS, by_prompt
from refusal_checks.metrics.statistics.intervals import Estimate


def view(
    second: SecondOpinions, gate: Gate, records: Sequence[Record], level: float
) -> tuple[str, RateView | None]:
    """The rate, or why the second judge's sample is too small to tell.

    Prompts whose answers it decided need no sample; the others are estimated from theirs.

    Args:
        records: those that the gate looks at.
    """
    metric, alone = METRICS[gate.metric], without_clusters(records)
    why, found = _of_independent(second, gate, alone, level)
    factor = spread(metric, records, level) if found else 1.0
    if found is None or factor == 1.0:
        return why, found
    estimate = found.estimate.widened(factor, metric.lowest, metric.highest)
    return why, replace(found, estimate=estimate, need=None)


def _of_independent(
    second: SecondOpinions, gate: Gate, records: Sequence[Record], level: float
) -> tuple[str, RateView | None]:
    """``view`` of prompts without clusters."""
    metric, grouped = METRICS[gate.metric], by_prompt(filter(is_answered, records))
    settled = [name for name, answers in grouped.items() if second.settled(answers)]
    rest = {name: answers for name, answers in grouped.items() if name not in set(settled)}
    drawn = {name: answers for name, answers in rest.items() if name in second.drawn}
    known = {name: answers for name, answers in drawn.items() if second.known(answers)}
    judged = {name: list(map(second.judged, answers)) for name, answers in known.items()}
    decided = [*chain.from_iterable(grouped[name] for name in settled)]
    note = f"{second.judge} decided {len(settled)} prompts and read {len(known)} of the others"
    if len(known) == len(rest):
        every = [*decided, *chain.from_iterable(judged.values())]
        return "", RateView("cascade", metric.estimate(every, level), note)
    missing = [name for name in drawn if name not in known]
    scores = Scores.of(metric, [*chain.from_iterable(rest.values())], judged, missing)
    if len(scores.human) < LEAST:
        return f"not corrected: {note}, at least {LEAST} are needed", None
    if scores.skipped:
        note += f"; {len(scores.skipped)} without a verdict count one way, then the other"
    found = replace(powered("cascade", gate, scores, level), note=note)
    if all(isinstance(record.judgement, Invalid) for record in decided):
        return "", found
    return "", _beside(found, metric.estimate(decided, level), level)


def _beside(found: RateView, settled: Estimate, level: float) -> RateView:
    """A view of some prompts together with the estimate for all others."""
    share = settled.n / (settled.n + found.estimate.n)
    low, high = found.extremes or (0.0, 0.0)
    ends = [share * settled.value + (1 - share) * end for end in (low, high)]
    return replace(
        found,
        estimate=with_settled(found.estimate, settled, level),
        extremes=(ends[0], ends[1]) if found.extremes else None,
        need=None,
    )
