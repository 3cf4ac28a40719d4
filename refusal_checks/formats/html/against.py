"""Which prompts count against which gates."""

from __future__ import annotations

from collections.abc import Sequence

from refusal_checks import offenders
from refusal_checks.gate import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.outcome import Limits
from refusal_checks.records import Record
from refusal_checks.thresholds import Gate


def counts_against(verdict: Verdict, answers: Sequence[Record]) -> bool:
    """Whether a prompt draws a gate's figure towards the bound that matters.

    That is the bound which the figure missed or, where it missed none, the only one it has; with
    bounds on both sides and neither missed, no prompt counts against the gate.

    Args:
        answers: all records of one prompt of the gate's benchmark, at least one.
    """
    gate, metric = verdict.gate, METRICS[verdict.gate.metric]
    low = _too_low(verdict)
    if low is None or not _looks_at(gate, answers[0]):
        return False
    score = metric.score(answers)
    bound = gate.minimum if low else gate.maximum
    assert bound is not None, "the side is that of a bound"
    return score is not None and offenders.counts_against(metric, score, bound, low)


def _too_low(verdict: Verdict) -> bool | None:
    gate, value = verdict.gate, verdict.estimate.value
    if gate.minimum is not None and not Limits(gate.minimum).holds(value):
        return True
    if gate.maximum is not None and not Limits(None, gate.maximum).holds(value):
        return False
    if gate.minimum is not None and gate.maximum is not None:
        return None
    return None if not gate.has_bounds else gate.minimum is not None


def _looks_at(gate: Gate, record: Record) -> bool:
    groups = record.prompt.groups
    return gate.group_kind is None or groups.get(gate.group_kind) == gate.group
