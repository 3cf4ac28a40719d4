"""Figures, intervals and outcomes, written the same wherever a verdict is shown."""

from __future__ import annotations

from refusal_checks.core.text import count as count
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate, Outcome
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate


def figure(gate: Gate, value: float) -> str:
    """A figure as its gate's metric is usually written."""
    return METRICS[gate.metric].show(value)


def interval(gate: Gate, estimate: Estimate) -> str:
    """The interval alone, for example ``[71.1%, 86.7%]``."""
    return f"[{figure(gate, estimate.lower)}, {figure(gate, estimate.upper)}]"


def mark(verdict: Verdict) -> str:
    """The outcome of the gate's test in one word, with a question mark if it is inconclusive.

    A gate that fails under a waiver is neither passed nor failed: ``waived``.
    """
    if verdict.is_idle:
        return "skip"
    if verdict.waived:
        return "waived"
    word = "FAIL" if not verdict.passed else "warn" if verdict.warns else "pass"
    return word + "?" * (verdict.outcome is Outcome.INCONCLUSIVE)
