"""Makes hostile text, such as model output, fit for a terminal, a log or a file."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Terminal control sequences: CSI, OSC (titles, links) and two-character ones."""

_COMMANDS = re.compile(r"##(?=[\w.]*\[)")
"""The start of a CI system's command."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}
"""Unicode categories that are invisible or reorder text: controls, bidi marks, surrogates."""


_AT_START = re.compile(r"^(\s*):(?=:)")
"""A possible CI command at the start of a line, with or without white space before it."""


def storable(text: str) -> str:
    """The text with lone surrogates, which models emit, replaced so that it can be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clean(text: str, limit: int = 300) -> str:
    """One harmless line: no terminal escapes, control or bidirectional characters, or line breaks.

    ``##[command]`` and ``##name[command]`` anywhere in a line, and ``::command`` at its start, are
    broken up, because CI systems act on them.

    Args:
        limit: most characters; an ellipsis marks what is cut.
    """
    text = " ".join(_ESCAPES.sub("", text).split())[: limit + 1]
    shown = "".join("�" if unicodedata.category(char) in _HIDDEN else char for char in text)
    shown = _no_command(_COMMANDS.sub("# #", shown))
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def clean_lines(text: str, limit: int = 2000) -> str:
    """Several harmless lines, for example of a log, with their indentation.

    Args:
        limit: most characters of a line, and of its indentation.
    """
    return "\n".join(_indentation(line, limit) + clean(line, limit) for line in text.split("\n"))


def _indentation(line: str, most: int) -> str:
    return " " * min(most, len(line) - len(line.lstrip(" ")))


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
    """A harmless line wrapped into several, none of which starts with a CI command.

    Args:
        width: most characters, including the indentation of the second line and later ones.
    """
    # Breaking up a command takes one column.
    lines = textwrap.wrap(line, width - 1, subsequent_indent="  ", break_on_hyphens=False)
    return [_no_command(line) for line in lines]


def _no_command(line: str) -> str:
    return _AT_START.sub(r"\1: ", line)
