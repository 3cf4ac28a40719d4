"""The gates on the page: a section for each benchmark, the most serious first."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from refusal_checks.core.text import count
from refusal_checks.reports.rows import Row, rows
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording.gate_sentences import MEASURED

TONES = {
    **dict.fromkeys(("ERROR", "FAIL", "FAIL?"), "fail"),
    **dict.fromkeys(("waived", "warn?", "warn", "pass?"), "warn"),
    "pass": "pass",
    MEASURED: "skip",
    "skip": "skip",
}
"""Colours of marks; marks that need attention come first."""


class Section(NamedTuple):
    """A benchmark's gates: some always visible, others folded under a title.

    Attributes:
        is_open: whether a folded gate needs attention and no visible one does.
    """

    rows: Sequence[Row]
    folded: Sequence[Row]
    title: str
    is_open: bool


def sections(run: RunSummary) -> list[Section]:
    """The sections of a run; gates on groups and on how answers were judged are folded."""
    rows_by_benchmark: dict[str, list[Row]] = {}
    for row in rows(run):
        rows_by_benchmark.setdefault(row.benchmark, []).append(row)
    order, found = list(TONES), []
    for own in rows_by_benchmark.values():
        folded = [
            row
            for row in own
            if not row.is_main and (row.is_of_group or row.is_of_judging)
        ]
        shown = [row for row in own if row not in folded]
        # Folded only if the visible rows already show that the benchmark needs attention.
        is_open = any(map(needs_attention, folded)) > any(map(needs_attention, shown))
        found.append(Section(shown, folded, _title(folded), is_open))
    return sorted(
        found,
        key=lambda part: min(order.index(r.mark) for r in (*part.rows, *part.folded)),
    )


def needs_attention(row: Row) -> bool:
    return TONES[row.mark] in ("fail", "warn")


def _title(rows: Sequence[Row]) -> str:
    marks = Counter(row.mark for row in rows)
    outcomes = ", ".join(f"{marks[mark]} {mark}" for mark in TONES if marks[mark])
    return f"{count(len(rows), 'gate')} on groups and on invalid answers: {outcomes}"
