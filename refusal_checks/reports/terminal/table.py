"""The summary at the end of a run: one table, then remarks; plain text within 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.text import clean, columns, cut, padded, wrapped
from refusal_checks.reports import rows as table
from refusal_checks.reports.rows import Row
from refusal_checks.reports.terminal import remarks
from refusal_checks.reports.terminal.remarks import WIDTH
from refusal_checks.results.summary import RunSummary

COLOURS: Mapping[str, Mapping[str, bool]] = {
    "pass": {"green": True},
    "pass?": {"yellow": True},
    "warn?": {"yellow": True},
    "skip": {"yellow": True},
    "FAIL": {"red": True, "bold": True},
    "FAIL?": {"red": True},
    "ERROR": {"red": True, "bold": True},
}
"""pytest's markup by what became of a test; the words tell the same without it."""

GATE_LEAST = 24
"""Columns with fewer than which a gate's name would be cut beyond recognition."""


@dataclass(frozen=True)
class Line:
    """A line of the summary.

    Attributes:
        mark: what became of a gate's test, which may be coloured; empty in other lines.
        bold: whether the text stands out where the terminal can.
    """

    text: str
    mark: str = ""
    bold: bool = False

    def __str__(self) -> str:
        return self.mark + self.text

    @property
    def pieces(self) -> tuple[tuple[str, Mapping[str, bool]], ...]:
        """Its parts, each with pytest's markup for it."""
        return (self.mark, COLOURS.get(self.mark, {})), (self.text, {"bold": self.bold})


def lines(runs: Sequence[RunSummary], verbose: bool = False) -> Iterator[Line]:
    """The summary of all runs: one table, then what concerns single ones.

    Args:
        verbose: show every gate, and the remarks on all of them.
    """
    names = table.candidate_names(runs)
    for run, name in zip(runs, names, strict=True):
        for line in run.failure.splitlines():
            yield Line(_of(name, clean(line, 10 * WIDTH)))
    yield from _aligned(table.rows(runs, verbose))
    hidden = 0 if verbose else table.left_out(runs)
    if hidden:
        yield Line(f"{hidden} more gate{'s' * (hidden > 1)} passed, on invalid answers: -v shows")
    for run, name in zip(runs, names, strict=True):
        yield from (Line(_of(name, text)) for text in remarks.notes(run))
        for text in remarks.lines(run, verbose):
            yield from map(Line, wrapped(_of(name, text), WIDTH))


def _of(candidate: str, text: str) -> str:
    return f"{candidate}: {text}" if candidate else text


def _aligned(rows: Sequence[Row]) -> Iterator[Line]:
    """The table; columns without any word are left out, and a gate's name takes what is left.

    Where that is too little, it has a line of its own above its rows.
    """
    if not rows:
        return
    shown = _without_empty([table.HEADER, *(_indented(row) for row in rows)])
    first, gates, *widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    room = WIDTH - first - sum(widths) - 2 * (len(widths) + 1)
    is_stacked = room < min(gates, GATE_LEAST)
    widths = widths if is_stacked else [min(gates, room), *widths]
    above = ""
    for row, (mark, gate, *others) in zip([None, *rows], shown, strict=True):
        is_main = bool(row and row.is_main)
        if is_stacked and row and gate != above:
            above = gate
            yield Line(" " * (first + 2) + cut(gate, WIDTH - first - 2), bold=is_main)
        cells = others if is_stacked else [gate, *others]
        text = _told(cells, row.error) if row and row.error else _fitted(cells, widths)
        yield Line(" " * (first - len(mark) + 2) + cut(text, WIDTH - first - 2), mark, is_main)


def _fitted(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A row's cells in their columns."""
    return "  ".join(padded(*pair) for pair in zip(cells, widths, strict=True)).rstrip()


def _told(cells: Sequence[str], error: str) -> str:
    """Why a row has no figures, behind what it is about."""
    return ": ".join(filter(None, (" ".join(filter(None, cells)), error)))


def _indented(row: Row) -> Sequence[str]:
    mark, gate, *others = row.columns
    return (mark, gate if row.is_main else f"  {gate}", *others)


def _without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows, header first, without columns that are empty below it."""
    kept = [number for number in range(len(rows[0])) if any(row[number] for row in rows[1:])]
    return [[row[number] for number in kept] for row in rows]
