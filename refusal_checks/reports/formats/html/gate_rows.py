"""The gates: one row per gate, failures first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.gates.comparison import Comparison
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.reports import words
from refusal_checks.reports.explain import Moved, Topic, moved, select
from refusal_checks.results.summary import RunSummary

TONES = {
    "ERROR": "fail",
    "FAIL": "fail",
    "FAIL?": "fail",
    "warn?": "warn",
    "warn": "warn",
    "pass?": "warn",
    "pass": "pass",
    "skip": "skip",
}
"""The colours of marks, those first that need attention."""


@dataclass(frozen=True)
class Row:
    """One gate.

    Attributes:
        number: of its verdict in the run; None for a gate without one.
        mark: the outcome in a word.
        tone: its colour: ``fail``, ``warn``, ``pass`` or ``skip``.
        verdict: None for a gate that could not be evaluated.
        must: the threshold, short.
        change, change_interval: against the baseline; empty without one.
        reasons: what no column shows.
        moved: prompts that moved since the baseline.
    """

    id: str
    number: int | None
    mark: str
    tone: str
    verdict: Verdict | None
    must: str = ""
    change: str = ""
    change_interval: str = ""
    reasons: Sequence[str] = ()
    moved: Sequence[Moved] = ()


def rows(summary: RunSummary) -> list[Row]:
    """All gates of a run, those that need attention first."""
    errors = [
        Row(gate_id, None, "ERROR", TONES["ERROR"], None, reasons=[error])
        for gate_id, error in summary.errors.items()
    ]
    decided = [_row(n, *item) for n, item in enumerate(summary.verdicts.items())]
    return sorted(errors + decided, key=lambda row: list(TONES).index(row.mark))


def _row(number: int, gate_id: str, verdict: Verdict) -> Row:
    gate, compared = verdict.gate, verdict.comparison
    metric = METRICS[gate.metric]
    return Row(
        id=gate_id,
        number=number,
        mark=words.mark(verdict),
        tone=TONES[words.mark(verdict)],
        verdict=verdict,
        must=_must(gate),
        change=metric.show_change(compared.change.value) if compared else "",
        change_interval=_change_interval(metric, compared) if compared else "",
        reasons=select(verdict, *(set(Topic) - {Topic.HEADLINE})),
        moved=moved(verdict),
    )


def _must(gate: Gate) -> str:
    bounds = (("≥", gate.minimum), ("≤", gate.maximum))
    shown = [f"{sign} {words.figure(gate, at)}" for sign, at in bounds if at is not None]
    return ", ".join(shown) or gate.margins


def _change_interval(metric: Metric, compared: Comparison) -> str:
    lower, upper = (
        metric.show_change(value).removesuffix(" points")
        for value in (compared.change.lower, compared.change.upper)
    )
    return f"[{lower}, {upper}], n = {compared.change.n}"
