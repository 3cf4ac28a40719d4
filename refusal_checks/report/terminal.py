"""The summary at the end of a run: one table, then remarks; plain text within 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.report import remarks, table
from refusal_checks.report.remarks import WIDTH
from refusal_checks.report.summary import RunSummary
from refusal_checks.report.table import Row
from refusal_checks.report.text import clean, wrapped

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
    """The table; columns without any word are left out, and a gate's name takes what is left."""
    if not rows:
        return
    shown = _without_empty([table.HEADER, *(_indented(row) for row in rows)])
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    widths[1] = min(widths[1], WIDTH - sum(widths[2:]) - widths[0] - 2 * (len(widths) - 1))
    for row, cells in zip([None, *rows], shown, strict=True):
        mark, gate, *others = cells
        gap = " " * (widths[0] - len(mark) + 2)
        if row and row.error:
            named = f"{' ' * (len(gate) - len(gate.lstrip()))}{' '.join((gate, *others)).strip()}"
            text = named + ": " + row.error
            yield Line(gap + text[: WIDTH - widths[0] - 2], mark, row.is_main)
            continue
        fitted = zip([_cut(gate, widths[1]), *others], widths[1:], strict=True)
        rest = "  ".join(cell.ljust(width) for cell, width in fitted).rstrip()
        yield Line(gap + rest, mark, bool(row and row.is_main))


def _indented(row: Row) -> Sequence[str]:
    mark, gate, *others = row.columns
    return (mark, gate if row.is_main else f"  {gate}", *others)


def _without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows, header first, without columns that are empty below it."""
    kept = [number for number in range(len(rows[0])) if any(row[number] for row in rows[1:])]
    return [[row[number] for number in kept] for row in rows]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
