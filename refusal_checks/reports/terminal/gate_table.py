"""The table of gates, fitted to the terminal's width."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from refusal_checks.core.layout import columns, cut, table
from refusal_checks.reports.rows import HEADER, Row

WIDTH, LEAST = 100, 40
"""Greatest and least width of output, in columns, whatever the terminal's size."""

MARK_WIDTH = 7
"""Width of the outcome, which begins each row."""

COLOURS = {
    **dict.fromkeys(("pass", "yes"), "green"),
    **dict.fromkeys(("pass?", "warn?", "skip", "doubt"), "yellow"),
    **dict.fromkeys(("FAIL?", "open", "unshown"), "red"),
    **dict.fromkeys(("FAIL", "ERROR", "no"), "red bold"),
    "waived": "yellow bold",
}
"""pytest's markup for the outcomes of gates and for answers; the words say the same without it."""


class Line(NamedTuple):
    text: str
    mark: str = ""  # the outcome of a gate's test, or the whole of an answer
    is_bold: bool = False
    colour: str = ""  # of a mark that is no outcome itself, see ``COLOURS``

    def __str__(self) -> str:
        return self.mark + self.text

    @property
    def pieces(self) -> tuple[tuple[str, Mapping[str, bool]], ...]:
        """The parts of the line with their markup for pytest's terminal writer."""
        markup = COLOURS.get(self.colour or self.mark, "").split()
        return (
            (self.mark, dict.fromkeys(markup, True)),
            (self.text, {"bold": self.is_bold}),
        )


def fitting(columns: int | None = None) -> int:
    """Width to fill: of this terminal, else of the current one (80 if there is none, as in CI)."""
    if columns is None:
        columns = shutil.get_terminal_size().columns
    return max(LEAST, min(WIDTH, columns - 1))


def table_lines(rows: Sequence[Row], width: int) -> Iterator[Line]:
    """The table without empty columns and those that do not fit.

    A gate's name is never cut, since ``-k`` takes it: if it does not fit, it goes above its row.
    """
    if not rows:
        return
    names = [row.gate if row.is_main else f"  {row.gate}" for row in rows]
    cells = [[name, *row.columns[2:]] for name, row in zip(names, rows, strict=True)]
    room = width - MARK_WIDTH
    grid, is_stacked = _fitted(_without_empty([[*HEADER[1:]], *cells]), room)
    if is_stacked:
        grid = [row[1:] for row in grid]
    header, *texts = table(grid)
    yield Line(" " * MARK_WIDTH + cut(header, room))
    name_above = ""
    for row, name, text in zip(rows, names, texts, strict=True):
        if is_stacked and name != name_above:
            name_above = name
            yield from _name_lines(name, room, row.is_main)
        if row.error:
            text = f"{text}: {row.error}" if text else row.error
        indent = " " * (MARK_WIDTH - len(row.mark))
        yield Line(indent + cut(text, room), row.mark, row.is_main)


def _without_empty(grid: list[list[str]]) -> list[list[str]]:
    """Drop columns that are empty below the header."""
    kept = [column for column in zip(*grid, strict=True) if any(column[1:])]
    return [list(row) for row in zip(*kept, strict=True)]


def _name_lines(name: str, room: int, is_bold: bool) -> Iterator[Line]:
    """A gate's name on a line of its own, wrapped into indented lines."""
    from rich.cells import chop_cells  # not for collection

    parts = [name] if columns(name) <= room else chop_cells(name, room - 4)
    for number, part in enumerate(parts):
        indent = MARK_WIDTH if number == 0 else MARK_WIDTH + 4
        yield Line(" " * indent + part, is_bold=is_bold)


def _fitted(grid: list[list[str]], room: int) -> tuple[list[list[str]], bool]:
    """Drop columns until the grid fits; say whether the first column must go above the rows.

    The least important columns go first: the share of invalid answers if there are none, the
    intervals, the number of prompts.
    """
    for shorten in (_as_it_is, _without_zero_invalid, _without_intervals, _without_n):
        grid = shorten(grid)
        widths = [max(map(columns, column)) for column in zip(*grid, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= room:
            return grid, False
    return grid, True


def _as_it_is(grid: list[list[str]]) -> list[list[str]]:
    return grid


def _without_zero_invalid(grid: list[list[str]]) -> list[list[str]]:
    at = _place("invalid", grid)
    if at is None or any(row[at] not in ("", "0.0%") for row in grid[1:]):
        return grid
    return _without_column(grid, at)


def _without_intervals(grid: list[list[str]]) -> list[list[str]]:
    at = _place("figure", grid)
    if at is None:
        return grid
    return [[*row[:at], row[at].partition(" [")[0], *row[at + 1 :]] for row in grid]


def _without_n(grid: list[list[str]]) -> list[list[str]]:
    at = _place("n", grid)
    return grid if at is None else _without_column(grid, at)


def _place(name: str, grid: list[list[str]]) -> int | None:
    return grid[0].index(name) if name in grid[0] else None


def _without_column(grid: list[list[str]], at: int) -> list[list[str]]:
    return [[*row[:at], *row[at + 1 :]] for row in grid]
