"""The summary at the end of a run: one table, then remarks; plain text within 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.text import clean, columns, cut, wrapped
from refusal_checks.core.text import table as text_table
from refusal_checks.reports import rows as table
from refusal_checks.reports.rows import Row
from refusal_checks.reports.terminal import WIDTH, remarks
from refusal_checks.reports.words import count
from refusal_checks.results.summary import RunSummary

COLOURS: Mapping[str, Mapping[str, bool]] = {
    "pass": {"green": True},
    "pass?": {"yellow": True},
    "warn?": {"yellow": True},
    "waived": {"yellow": True, "bold": True},
    "skip": {"yellow": True},
    "FAIL": {"red": True, "bold": True},
    "FAIL?": {"red": True},
    "ERROR": {"red": True, "bold": True},
}
"""pytest's markup for each outcome; the words say the same without it."""

MARK_WIDTH = 7
LEAST_GATE_WIDTH = 24
"""With less room than this, a gate's name gets a line of its own above its rows."""


@dataclass(frozen=True)
class Line:
    """A line of the summary.

    Attributes:
        mark: the outcome of a gate's test, which may be coloured; empty in other lines.
        is_bold: True if the text is bold on terminals that can show that.
    """

    text: str
    mark: str = ""
    is_bold: bool = False

    def __str__(self) -> str:
        return self.mark + self.text

    @property
    def pieces(self) -> tuple[tuple[str, Mapping[str, bool]], ...]:
        """Its parts, each with pytest's markup for it."""
        return (self.mark, COLOURS.get(self.mark, {})), (self.text, {"bold": self.is_bold})


def lines(runs: Sequence[RunSummary], verbosity: int = 0) -> Iterator[Line]:
    """The summary of all runs: one table, then remarks on each run.

    Args:
        verbosity: how many ``-v`` were given; from 1, every gate is shown, with its remarks.
    """
    names = [f"{name}: " if name else "" for name in table.candidate_names(runs)]
    for run, name in zip(runs, names, strict=True):
        yield from (Line(name + clean(line, 10 * WIDTH)) for line in run.failure.splitlines())
    yield from _table(table.rows(runs, verbosity > 0))
    hidden = 0 if verbosity else table.left_out(runs)
    if hidden:
        yield Line(f"{count(hidden, 'gate')} on invalid answers passed too (shown with -v)")
    for run, name in zip(runs, names, strict=True):
        yield from (Line(name + text) for text in remarks.notes(run))
        for text in remarks.lines(run, verbosity):
            yield from map(Line, wrapped(name + text, WIDTH))


def _table(rows: Sequence[Row]) -> Iterator[Line]:
    """The table without empty columns; names of gates are cut, or stand above their rows."""
    if not rows:
        return
    cells = [(row.gate if row.is_main else f"  {row.gate}", *row.columns[2:]) for row in rows]
    kept = [n for n in range(len(cells[0])) if any(row[n] for row in cells)]
    grid = [[row[n] for n in kept] for row in (table.HEADER[1:], *cells)]
    widths = [max(map(columns, column)) for column in zip(*grid, strict=True)]
    room = WIDTH - MARK_WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1)
    stacked = room < min(widths[0], LEAST_GATE_WIDTH)
    header, *texts = text_table([row[stacked:] for row in grid], width=WIDTH - MARK_WIDTH)
    yield Line(" " * MARK_WIDTH + header)
    above = ""
    for row, (gate, *_), text in zip(rows, cells, texts, strict=True):
        if stacked and gate != above:
            above = gate
            yield Line(" " * MARK_WIDTH + cut(gate, WIDTH - MARK_WIDTH), is_bold=row.is_main)
        if row.error:
            text = f"{text}: {row.error}" if text else row.error
        text = cut(text, WIDTH - MARK_WIDTH)
        yield Line(" " * (MARK_WIDTH - len(row.mark)) + text, row.mark, row.is_main)
