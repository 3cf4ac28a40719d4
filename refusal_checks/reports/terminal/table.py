"""The table of gates at the end of a run, as plain text that fits a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.text import columns, cut, padded
from refusal_checks.reports.rows import HEADER, Row

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


@dataclass(frozen=True)
class Line:
    """A line of the summary.

    Attributes:
        mark: what may be coloured: the outcome of a gate's test, or the whole of an answer.
        is_bold: True if the text is bold on terminals that can show that.
        colour: the outcome whose colour the mark has, if it is none itself.
    """

    text: str
    mark: str = ""
    is_bold: bool = False
    colour: str = ""

    def __str__(self) -> str:
        return self.mark + self.text

    @property
    def pieces(self) -> tuple[tuple[str, Mapping[str, bool]], ...]:
        """Its parts, each with pytest's markup for it."""
        return (self.mark, COLOURS.get(self.colour or self.mark, {})), (
            self.text,
            {"bold": self.is_bold},
        )


def lines(rows: Sequence[Row], width: int) -> Iterator[Line]:
    """The table without empty columns, and without those that have no room.

    No gate's name is cut, since ``-k`` takes it: where it has no room, it stands above its row.

    Args:
        width: columns of the terminal.
    """
    if not rows:
        return
    head = (HEADER[1], *HEADER[2:])
    cells = [(row.gate if row.is_main else f"  {row.gate}", *row.columns[2:]) for row in rows]
    kept = [n for n in range(len(head)) if any(row[n] for row in cells)]
    grid = [[row[n] for n in kept] for row in (head, *cells)]
    names = [head[n] for n in kept]
    room = width - MARK_WIDTH
    grid, stacked = _fitted(grid, names, room)
    widths = [max(map(columns, column)) for column in zip(*grid, strict=True)]
    first, *texts = (
        "  ".join(map(padded, row[stacked:], widths[stacked:])).rstrip() for row in grid
    )
    yield Line(" " * MARK_WIDTH + cut(first, room))
    above = ""
    for row, (gate, *_), text in zip(rows, cells, texts, strict=True):
        if stacked and gate != above:
            above = gate
            yield from (
                Line(" " * MARK_WIDTH + part, is_bold=row.is_main) for part in _pieces(gate, room)
            )
        if row.error:
            text = f"{text}: {row.error}" if text else row.error
        yield Line(" " * (MARK_WIDTH - len(row.mark)) + cut(text, room), row.mark, row.is_main)


def _fitted(grid: list[list[str]], names: Sequence[str], room: int) -> tuple[list[list[str]], bool]:
    """The grid as it fits, and whether its first column stands above the rows.

    What a reader misses least goes first: the share of invalid answers where there are none, the
    intervals, the number of prompts.
    """
    names = list(names)
    for step in ("", "invalid", "figure", "n"):
        if step == "figure" and step in names:
            at = names.index(step)
            grid = [[*row[:at], row[at].partition(" [")[0], *row[at + 1 :]] for row in grid]
        elif step in names and (step != "invalid" or _is_nought(grid, names.index(step))):
            at = names.index(step)
            grid = [[*row[:at], *row[at + 1 :]] for row in grid]
            names.remove(step)
        if _width(grid) <= room:
            return grid, False
    return grid, True


def _is_nought(grid: Sequence[Sequence[str]], at: int) -> bool:
    return all(row[at] in ("", "0.0%") for row in grid[1:])


def _width(grid: Sequence[Sequence[str]]) -> int:
    widths = [max(map(columns, column)) for column in zip(*grid, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _pieces(name: str, room: int) -> Iterator[str]:
    """A name in as many lines as it takes."""
    from rich.cells import set_cell_size

    while columns(name) > room:
        part = set_cell_size(name, room).rstrip()
        yield part
        name = "    " + name[len(part) :].lstrip()
    yield name
