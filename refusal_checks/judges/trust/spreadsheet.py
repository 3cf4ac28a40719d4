"""CSV files with untrusted text, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence

_FORMULA = "=+-@＝＋－＠"
"""Some spreadsheets read a cell that starts with one of these as a formula."""

_QUOTE = "'"
"""In front of such a cell it marks text; spreadsheets hide it or show it."""

_CELL = 32_000
"""Number of characters that every spreadsheet keeps in a cell (Excel: 32,767)."""


def guarded(text: str) -> str:
    """Text as a harmless cell: never a formula, no control characters, not too long.

    Text that is a formula behind a quote of its own gets another quote, so that ``unguarded``
    restores it.
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
    """A CSV file of guarded cells; its byte order mark makes Excel read it as UTF-8."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return file.getvalue().encode("utf-8-sig", "replace")
