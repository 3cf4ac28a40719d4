"""Fit text that is safe to print into a terminal: widths, columns, wrapping.

rich takes a while to import, so each function imports it.
"""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence

from refusal_checks.core.text import break_command


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to this many characters by leaving out what they have in common."""
    start = _first_difference(names)
    return [_shorten(name, start, width) for name in names]


def _first_difference(names: Sequence[str]) -> int:
    """Where the names first differ, or the start of that word if near; 0 if they are equal."""
    if len(set(names)) == 1:
        return 0
    start = 0
    for letters in zip(*names, strict=False):
        if len(set(letters)) > 1:
            break
        start += 1
    for _ in range(8):
        if start > 0 and names[0][start - 1].isalnum():
            start -= 1
    return start


def _shorten(name: str, start: int, width: int) -> str:
    if len(name) <= width:
        return name
    differs = name[start:] if start else name[-((width - 1) // 2) :]
    if len(differs) < width:
        return f"{name[: width - 1 - len(differs)]}…{differs}"
    return f"…{differs[: width - 2]}…"


def display_width(text: str) -> int:
    """How many terminal columns a text takes; East Asian characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def truncate(text: str, width: int) -> str:
    """Cut a text to this width; an ellipsis marks the cut."""
    from rich.cells import set_cell_size

    if display_width(text) <= width:
        return text
    return set_cell_size(text, width - 1) + "…"


def table(
    rows: Iterable[Sequence[str]], right: Collection[int] = (), width: int = 10_000
) -> Iterator[str]:
    """Lay out rows of safe cells as lines with aligned columns.

    The first column is cut if the table is wider than the terminal.

    Args:
        right: numbers of the right-aligned columns.
        width: width of the terminal.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        for number in range(len(grid.columns), len(row)):
            justify = "right" if number in right else "left"
            grid.add_column(justify=justify, no_wrap=number > 0)  # type: ignore[arg-type]
        grid.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(grid)
    return (line.rstrip() for line in capture.get().splitlines())


def wrap(line: str, width: int) -> list[str]:
    """Wrap a safe line to this width; no part of it starts with a CI command."""
    # Breaking up a command takes one column.
    lines = textwrap.wrap(
        line, width - 1, subsequent_indent="  ", break_on_hyphens=False
    )
    return [break_command(part) for part in lines]
