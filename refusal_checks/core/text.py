"""Model output is hostile input: text made fit to be shown in a terminal or a log."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Terminal control sequences: CSI, OSC (titles, links) and two-character ones."""

_COMMANDS = re.compile(r"##(?=[\w.]*\[)")
"""Marks of a CI system's command."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}
"""Unicode categories that are invisible or reorder text: controls, bidi marks, surrogates."""


_AT_START = re.compile(r"^(\s*):(?=:)")
"""What a CI system may read as a command at the start of a line, white space before it or not."""


def storable(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded; models emit them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clean(text: str, limit: int = 300) -> str:
    """One harmless line: no terminal escapes, control or bidirectional characters, or line breaks.

    CI systems act on ``##[command]`` and ``##name[command]`` anywhere in a line, and on
    ``::command`` at the start of one, so these are broken up.

    Args:
        limit: characters that are kept; what is cut is shown by an ellipsis.
    """
    text = " ".join(_ESCAPES.sub("", text).split())[: limit + 1]
    shown = "".join("�" if unicodedata.category(char) in _HIDDEN else char for char in text)
    shown = _no_command(_COMMANDS.sub("# #", shown))
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def clean_lines(text: str, limit: int = 2000) -> str:
    """Several harmless lines, for example of a log; their indentation is kept.

    Args:
        limit: characters of a line that are kept, and most of its indentation.
    """
    return "\n".join(_indentation(line, limit) + clean(line, limit) for line in text.split("\n"))


def _indentation(line: str, most: int) -> str:
    return " " * min(most, len(line) - len(line.lstrip(" ")))


def columns(text: str) -> int:
    """How many columns of a terminal a text takes; East Asian characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """As much of a text as fits so many columns; what is cut is shown by an ellipsis."""
    from rich.cells import set_cell_size

    return text if columns(text) <= width else set_cell_size(text, width - 1) + "…"


def padded(text: str, width: int) -> str:
    """The text in exactly so many columns, cut where it is too long."""
    from rich.cells import set_cell_size

    return set_cell_size(cut(text, width), width)


def table(
    rows: Iterable[Sequence[str]], right: Collection[int] = (), width: int = 10_000
) -> Iterator[str]:
    """Rows of harmless cells as lines with aligned columns.

    Args:
        right: columns that are aligned to the right, counted from 0.
        width: of the lines in columns of a terminal; the first cell is cut where it is too narrow.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        for number in range(len(grid.columns), len(row)):
            grid.add_column(justify="right" if number in right else "left", no_wrap=number > 0)
        grid.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(grid)
    return (line.rstrip() for line in capture.get().splitlines())


def wrapped(line: str, width: int) -> list[str]:
    """A harmless line as several of limited width; what a break puts at a start is no command.

    Args:
        width: characters, indentation of the second line and those after it included.
    """
    # One column is left for what a broken-up command takes.
    lines = textwrap.wrap(line, width - 1, subsequent_indent="  ", break_on_hyphens=False)
    return [_no_command(found) for found in lines]


def _no_command(line: str) -> str:
    return _AT_START.sub(r"\1: ", line)
