"""The board: one row a gate, failures first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from refusal_checks.gates.checks import Outcome
from refusal_checks.gates.comparison import Comparison, Flip
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.reports import words
from refusal_checks.reports.formats.html.charts import Span, span
from refusal_checks.results.summary import RunSummary

ORDER = ("ERROR", "FAIL", "FAIL?", "warn?", "warn", "pass?", "pass", "skip")
"""Marks in the order in which they need a reader."""


@dataclass(frozen=True)
class Moved:
    """Prompts that moved one way since the baseline, a few of them with both answers."""

    heading: str
    flips: Sequence[Flip]


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
        plot: the interval beside the threshold.
        reasons: what the columns have no room for.
        moved: prompts that moved since the baseline.
    """

    id: str
    number: int | None
    mark: str
    tone: str
    verdict: Verdict | None
    value: str = ""
    interval: str = ""
    must: str = ""
    change: str = ""
    change_interval: str = ""
    plot: Span | None = None
    reasons: Sequence[str] = ()
    moved: Sequence[Moved] = ()


def rows(summary: RunSummary) -> list[Row]:
    """All gates of a run, those first that need a reader."""
    found = [_error(id, error) for id, error in summary.errors.items()]
    found += [_row(n, id, verdict) for n, (id, verdict) in enumerate(summary.verdicts.items())]
    return sorted(found, key=lambda row: ORDER.index(row.mark))


def _error(id: str, error: str) -> Row:
    return Row(id, None, "ERROR", "fail", None, reasons=[error])


def _row(number: int, id: str, verdict: Verdict) -> Row:
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    metric = METRICS[gate.metric]
    return Row(
        id=id,
        number=number,
        mark=words.mark(verdict),
        tone=_tone(verdict),
        verdict=verdict,
        value=words.figure(gate, estimate.value),
        interval=words.interval(gate, estimate),
        must=_must(gate),
        change=metric.show_change(compared.change.value) if compared else "",
        change_interval=_change_interval(metric, compared) if compared else "",
        plot=span(metric, estimate, gate.minimum, gate.maximum),
        reasons=list(_reasons(verdict)),
        moved=list(_moved(gate, compared)) if compared else (),
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


def _tone(verdict: Verdict) -> str:
    if verdict.is_idle:
        return "skip"
    if not verdict.passed:
        return "fail"
    return "warn" if verdict.outcome is Outcome.INCONCLUSIVE else "pass"


def _reasons(verdict: Verdict) -> Iterator[str]:
    gate, compared = verdict.gate, verdict.comparison
    if verdict.missed_by:
        yield f"missed by {verdict.missed_by} of {verdict.estimate.n} prompts"
    if not verdict.passed or verdict.outcome is Outcome.INCONCLUSIVE:
        yield words.finding(verdict)
    if verdict.views:
        yield words.views(verdict)
    if verdict.noise:
        yield words.noise(verdict)
    if verdict.invalid:
        yield f"with invalid answers counted either way: {words.bounds(verdict)}"
    if verdict.flips:
        yield "the invalid answers alone decide this gate: look at them first"
    if verdict.skipped:
        yield verdict.skipped
    if compared:
        yield from _changes(gate, compared)
    if gate.provenance:
        yield f"why this gate: {gate.provenance}"


def _changes(gate: Gate, compared: Comparison) -> Iterator[str]:
    if gate.has_margins:
        yield f"change: {words.one_sided(gate, compared)}, one-sided; must be {gate.margins}"
    if compared.lost or compared.gained:
        yield f"since {words.baseline_name(compared)}: {words.moves(gate, compared)}"
    if left_out := words.not_compared(compared):
        yield left_out
    for difference in compared.differences:
        yield f"not comparable: {difference}"


def _moved(gate: Gate, compared: Comparison) -> Iterator[Moved]:
    is_share = compared.p_flips is not None
    down, up = (f"left the {gate.metric}", f"joined the {gate.metric}") if is_share else (
        "fell", "rose")  # fmt: skip
    for flips, total, how in (
        (compared.fell, compared.lost, down),
        (compared.rose, compared.gained, up),
    ):
        if flips:
            yield Moved(f"{len(flips)} of the {total} prompts that {how}", flips)
