"""Fits harmless text into a terminal: widths, columns, wrapping."""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile

from refusal_checks.core.text import _no_command


def told_apart(names: Sequence[str], width: int) -> list[str]:
    """The names, shortened to this many characters where they are alike."""
    first, letters = names[0], zip(*names, strict=False)
    several = len({*names}) > 1
    start = (
        sum(1 for _ in takewhile(lambda each: len({*each}) == 1, letters))
        if several
        else 0
    )
    for _ in range(8):  # the whole word in which they differ, if that is short
        start -= start > 0 and first[start - 1].isalnum()
    half = (width - 1) // 2

    def shown(name: str) -> str:
        differs = name[start:] if start else name[-half:]
        if len(name) <= width:
            return name
        if len(differs) < width:
            return f"{name[: width - 1 - len(differs)]}…{differs}"
        return f"…{differs[: width - 2]}…"

    return [shown(name) for name in names]


def columns(text: str) -> int:
    """Columns that a text takes in a terminal; East Asian characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """As much of a text as fits this width; an ellipsis marks what is cut."""
    from rich.cells import set_cell_size

    return text if columns(text) <= width else set_cell_size(text, width - 1) + "…"


def padded(text: str, width: int) -> str:
    """The text cut or filled up to exactly this width."""
    from rich.cells import set_cell_size

    return set_cell_size(cut(text, width), width)


def table(
    rows: Iterable[Sequence[str]], right: Collection[int] = (), width: int = 10_000
) -> Iterator[str]:
    """Rows of harmless cells as lines with aligned columns, those of ``right`` to the right.

    The first cell is cut where the width, in columns of a terminal, is too narrow.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        for number in range(len(grid.columns), len(row)):
            grid.add_column(
                justify="right" if number in right else "left", no_wrap=number > 0
            )
        grid.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(grid)
    return (line.rstrip() for line in capture.get().splitlines())


def wrapped(line: str, width: int) -> list[str]:
    """A harmless line as several of this width, none of which starts with a CI command."""
    # Breaking up a command takes one column.
    lines = textwrap.wrap(
        line, width - 1, subsequent_indent="  ", break_on_hyphens=False
    )
    return [_no_command(line) for line in lines]
