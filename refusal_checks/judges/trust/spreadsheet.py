"""Untrusted text in CSV files that people open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence

_FORMULA = "=+-@＝＋－＠"
"""A cell that starts with one of these is a formula to some spreadsheet, full-width ones too."""

_QUOTE = "'"
"""Put before such a cell, it makes it text; spreadsheets take it off or show it."""

_CELL = 32_000
"""Characters that every spreadsheet keeps in a cell (Excel: 32,767)."""


def guarded(text: str) -> str:
    """Text as a harmless cell: never a formula, without control characters, not too long.

    What starts with the quote itself, and would be a formula without, gets another one, so that
    ``unguarded`` gives back what was there.
    """
    kept = "".join(char for char in text if char == "\n" or unicodedata.category(char) != "Cc")
    if len(kept) > _CELL:
        half = _CELL // 2 - 50
        kept = f"{kept[:half]}\n[... {len(kept) - 2 * half} characters ...]\n{kept[-half:]}"
    return _QUOTE + kept if _is_formula(kept) else kept


def unguarded(cell: str) -> str:
    """The text of a guarded cell."""
    inner = cell.removeprefix(_QUOTE)
    return inner if inner != cell and _is_formula(inner) else cell


def _is_formula(text: str) -> bool:
    return text.lstrip().lstrip(_QUOTE).lstrip()[:1] in tuple(_FORMULA)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A CSV file, each cell guarded; with a byte order mark, without which Excel takes UTF-8 for
    something else."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return file.getvalue().encode("utf-8-sig", "replace")
