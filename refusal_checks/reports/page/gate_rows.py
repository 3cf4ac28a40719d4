"""Rows of gates on the page."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refusal_checks.core.text import count
from refusal_checks.gates.bounds import bounds_in_words, margins_in_words
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.rows import MEASURED, benchmark_of, measured
from refusal_checks.reports.run_view import RunView
from refusal_checks.reports.wording.verdicts import mark, reasons

TONES = {
    **dict.fromkeys(("ERROR", "FAIL", "FAIL?"), "fail"),
    **dict.fromkeys(("waived", "warn?", "warn", "pass?"), "warn"),
    "pass": "pass",
    MEASURED: "skip",
    "skip": "skip",
}
"""Colours of marks; marks that need attention come first."""


@dataclass(frozen=True)
class GateRow:
    """One gate of one run, or a figure without a gate.

    Attributes:
        number: index of its verdict in the run.
        error: why it has no verdict.
        gate: without bounds for a figure that is only measured; None after an error.
    """

    run: RunView
    id: str
    number: int | None = None
    verdict: Verdict | None = None
    error: str = ""
    gate: Gate | None = None
    estimate: Estimate | None = None
    invalid: str = ""

    @property
    def benchmark(self) -> str:
        return self.gate.benchmark if self.gate else benchmark_of(self.id)

    @property
    def metric(self) -> Metric | None:
        return METRICS.get(self.gate.metric) if self.gate else None

    @property
    def mark(self) -> str:
        if self.verdict:
            return mark(self.verdict)
        return MEASURED if self.gate else "ERROR"

    @property
    def tone(self) -> str:
        return TONES[self.mark]

    @property
    def figure(self) -> str:
        if not self.gate or not self.estimate:
            return ""
        return self.gate.show(self.estimate.value)

    @property
    def interval(self) -> str:
        if not self.gate or not self.estimate:
            return ""
        return f"{self.gate.interval(self.estimate)}, n = {self.estimate.n}"

    @property
    def must(self) -> str:
        """The bounds of the figure, else the margins of its change."""
        if not self.gate:
            return ""
        bounds = bounds_in_words(self.gate, "≥ {}", "≤ {}", ", ")
        return bounds or margins_in_words(self.gate) or "–"

    @property
    def since_baseline(self) -> tuple[str, str]:
        """The change since the baseline, and its interval with n; empty if there is none."""
        compared = self.verdict and self.verdict.comparison
        if not compared or not self.metric:
            return "", ""
        change, show = compared.change, self.metric.show_change
        lower = show(change.lower).removesuffix(" points")
        upper = show(change.upper).removesuffix(" points")
        return show(change.value), f"[{lower}, {upper}], n = {change.n}"

    @property
    def reasons(self) -> Sequence[str]:
        if self.verdict:
            return reasons(self.verdict)
        return [self.error] if self.error else []

    @property
    def needs_attention(self) -> bool:
        return self.tone in ("fail", "warn")

    @property
    def is_of_a_group(self) -> bool:
        return self.gate is not None and self.gate.group is not None

    @property
    def is_of_judging(self) -> bool:
        """True for a gate on how answers were judged, which says nothing about the candidate."""
        return self.metric is not None and self.metric.group == "judging"


def rows(run: RunView) -> list[GateRow]:
    """A run's gates; those that need attention come first."""
    every = []
    for gate_id, error in run.summary.errors.items():
        every.append(GateRow(run, gate_id, error=error))
    for number, (gate_id, verdict) in enumerate(run.summary.verdicts.items()):
        invalid = f"{verdict.invalid.share:.1%}"
        gate, estimate = verdict.gate, verdict.estimate
        every.append(
            GateRow(run, gate_id, number, verdict, "", gate, estimate, invalid)
        )
    for name, metric in measured(run.summary).items():
        summary, gate = run.summary.benchmarks[name], Gate(name, metric.name)
        share = sum(summary.invalid.values()) / max(1, summary.answers)
        invalid = f"{share:.1%}"
        estimate = summary.figures[metric.name]
        row = GateRow(run, gate.id, gate=gate, estimate=estimate, invalid=invalid)
        every.append(row)
    order = list(TONES)
    return sorted(every, key=lambda row: order.index(row.mark))


class Section(NamedTuple):
    """Gates shown together: some always visible, others folded under a title.

    Attributes:
        is_open: whether a folded gate needs attention that no visible row shows.
    """

    rows: Sequence[GateRow]
    folded: Sequence[GateRow]
    title: str
    is_open: bool = False


def sections(rows: Sequence[GateRow]) -> list[Section]:
    """A section per benchmark, the most serious first, then one for gates on judging.

    Gates on groups, and gates on judging that need no attention, are folded.
    """
    rows_by_benchmark: dict[str, list[GateRow]] = {}
    judging = []
    for row in rows:
        if row.is_of_judging:
            judging.append(row)
        else:
            rows_by_benchmark.setdefault(row.benchmark, []).append(row)
    parts = []
    for own in rows_by_benchmark.values():
        whole = [row for row in own if not row.is_of_a_group]
        groups = [row for row in own if row.is_of_a_group]
        is_open = _need_attention(groups) and not _need_attention(whole)
        parts.append(Section(whole, groups, _title(groups, "on groups"), is_open))
    if judging:
        shown = [row for row in judging if row.needs_attention]
        folded = [row for row in judging if not row.needs_attention]
        title = _title(folded, "on how answers were judged")
        parts.append(Section(shown, folded, title))
    return parts


def _need_attention(rows: Iterable[GateRow]) -> bool:
    return any(row.needs_attention for row in rows)


def _title(rows: Sequence[GateRow], about: str) -> str:
    marks = Counter(row.mark for row in rows)
    outcomes = ", ".join(f"{marks[mark]} {mark}" for mark in TONES if marks[mark])
    return f"{count(len(rows), 'gate')} {about}: {outcomes}"
