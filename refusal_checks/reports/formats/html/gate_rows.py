"""The gates: one row per gate, by benchmark; what failed comes first, gates on judging last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from refusal_checks.core.text import count
from refusal_checks.gates.compare import Comparison
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.reports import explain
from refusal_checks.reports.explain import Moved, Topic, moved, select
from refusal_checks.reports.rows import benchmark_of
from refusal_checks.results.summary import RunSummary

TONES = {
    "ERROR": "fail",
    "FAIL": "fail",
    "FAIL?": "fail",
    "waived": "warn",
    "warn?": "warn",
    "warn": "warn",
    "pass?": "warn",
    "pass": "pass",
    "skip": "skip",
}
"""The colours of marks, those first that need attention."""

_REASONS = (
    Topic.SUMMARY,
    Topic.WAIVER,
    Topic.MISS,
    Topic.DOUBT,
    Topic.INVALID_DECIDES,
    Topic.SKIPPED,
    Topic.CHANGE,
)
"""What is said of a gate at once; all else is a detail."""


@dataclass(frozen=True)
class Row:
    """One gate.

    Attributes:
        benchmark: what it is a gate of.
        number: of its verdict in the run; None for a gate without one.
        mark: the outcome in a word.
        tone: its colour: ``fail``, ``warn``, ``pass`` or ``skip``.
        verdict: None for a gate that could not be evaluated.
        must: the threshold, short.
        change, change_interval: against the baseline; empty without one.
        reasons: why it needs attention, in plain words.
        details: what else no column shows.
        moved: prompts that moved since the baseline.
    """

    id: str
    benchmark: str
    number: int | None
    mark: str
    tone: str
    verdict: Verdict | None
    must: str = ""
    change: str = ""
    change_interval: str = ""
    reasons: Sequence[str] = ()
    details: Sequence[str] = ()
    moved: Sequence[Moved] = ()

    @property
    def needs_attention(self) -> bool:
        """True unless the gate passed, or had nothing to check."""
        return self.tone in ("fail", "warn")

    @property
    def is_of_a_group(self) -> bool:
        """True for a gate on some of a benchmark's prompts."""
        return self.verdict is not None and self.verdict.gate.group is not None

    @property
    def is_of_judging(self) -> bool:
        """True for a gate on how answers were judged, which says nothing of the candidate."""
        return self.verdict is not None and METRICS[self.verdict.gate.metric].group == "judging"


@dataclass(frozen=True)
class Section:
    """Gates that stand together.

    Attributes:
        rows: always shown.
        folded: shown on demand.
        title: of the folded ones, with their outcomes.
        is_open: show them at once, since one needs attention and no shown row says so.
    """

    rows: Sequence[Row]
    folded: Sequence[Row] = ()
    title: str = ""
    is_open: bool = False


def sections(summary: RunSummary) -> list[Section]:
    """All gates of a run: a section per benchmark, the weightiest first, then those on judging.

    Gates on groups are folded under their benchmark, and gates on judging that need nobody.
    """
    found = rows(summary)
    own = [row for row in found if not row.is_of_judging]
    order = {name: place for place, name in enumerate(dict.fromkeys(row.benchmark for row in own))}
    own.sort(key=lambda row: order[row.benchmark])
    parts = [_section(list(part)) for _, part in groupby(own, lambda row: row.benchmark)]
    judging = [row for row in found if row.is_of_judging]
    return parts + ([_judging(judging)] if judging else [])


def _section(found: Sequence[Row]) -> Section:
    whole = [row for row in found if not row.is_of_a_group]
    groups = [row for row in found if row.is_of_a_group]
    shown_is_fine = not any(row.needs_attention for row in whole)
    is_open = shown_is_fine and any(row.needs_attention for row in groups)
    return Section(whole, groups, _title(groups, "on groups"), is_open)


def _judging(found: Sequence[Row]) -> Section:
    shown = [row for row in found if row.needs_attention]
    folded = [row for row in found if not row.needs_attention]
    return Section(shown, folded, _title(folded, "on how answers were judged"))


def _title(found: Sequence[Row], about: str) -> str:
    """How many rows are folded, and how they ended, the weightiest outcome first."""
    marks = Counter(row.mark for row in found)
    ends = ", ".join(f"{marks[mark]} {mark}" for mark in TONES if marks[mark])
    return f"{count(len(found), 'gate')} {about}: {ends}"


def rows(summary: RunSummary) -> list[Row]:
    """All gates of a run, those that need attention first."""
    errors = [
        Row(gate_id, benchmark_of(gate_id), None, "ERROR", TONES["ERROR"], None, reasons=[error])
        for gate_id, error in summary.errors.items()
    ]
    decided = [_row(n, *item) for n, item in enumerate(summary.verdicts.items())]
    return sorted(errors + decided, key=lambda row: list(TONES).index(row.mark))


def _row(number: int, gate_id: str, verdict: Verdict) -> Row:
    gate, compared = verdict.gate, verdict.comparison
    metric = METRICS[gate.metric]
    return Row(
        id=gate_id,
        benchmark=gate.benchmark,
        number=number,
        mark=explain.mark(verdict),
        tone=TONES[explain.mark(verdict)],
        verdict=verdict,
        must=_must(gate),
        change=metric.show_change(compared.change.value) if compared else "",
        change_interval=_change_interval(metric, compared) if compared else "",
        reasons=select(verdict, *_REASONS),
        details=select(verdict, *(set(Topic) - {Topic.HEADLINE, *_REASONS})),
        moved=moved(verdict),
    )


def _must(gate: Gate) -> str:
    bounds = (("≥", gate.minimum), ("≤", gate.maximum))
    shown = [f"{sign} {explain.figure(gate, at)}" for sign, at in bounds if at is not None]
    return ", ".join(shown) or gate.margins


def _change_interval(metric: Metric, compared: Comparison) -> str:
    lower, upper = (
        metric.show_change(value).removesuffix(" points")
        for value in (compared.change.lower, compared.change.upper)
    )
    return f"[{lower}, {upper}], n = {compared.change.n}"
