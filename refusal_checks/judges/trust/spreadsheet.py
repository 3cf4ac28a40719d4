"""Write tables of untrusted text that are safe to open in a spreadsheet, and read them back."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import rows_of
from refusal_checks.core.errors import DataError
from refusal_checks.core.files import read_bytes

_FORMULA = "=+@＝＋－＠-"
"""A cell that starts with one of these may be read as a formula."""

_QUOTE = "'"
"""In front of such a cell it marks text; spreadsheets hide it or show it."""

_DROPPED = frozenset("\"'\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
"""What may stand in front of a formula beside white space: quotes, invisible characters."""

_ENDS = frozenset("\n;|\t")
"""What may end a cell. A spreadsheet whose separator is not the comma (in much of the world it is
the semicolon) divides a quoted cell at its own separator, and ends a row at each line break."""

_CELL = 32_000
"""Characters that every spreadsheet keeps in a cell (Excel: 32,767)."""


def guarded(text: str) -> str:
    """Make text a safe cell: never a formula, no control characters, not too long.

    It is safe for spreadsheets with another separator, too: whatever might be read as a formula
    gets a leading quote, which ``unguarded`` removes.
    """
    kept = "".join(
        char for char in text if char == "\n" or unicodedata.category(char) != "Cc"
    )
    # Quotes make a cell longer, so a long text is cut until it fits with them.
    size = _CELL
    while True:
        cell = _quoted(_shortened(kept, size))
        if len(cell) <= _CELL:
            return cell
        size //= 2


def _shortened(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    half = size // 2 - 50
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters ...]\n{text[-half:]}"


def _quoted(text: str) -> str:
    begins = zip(text, _begins_formula(text), strict=True)
    return "".join(_QUOTE + char if is_formula else char for char, is_formula in begins)


def unguarded(cell: str) -> str:
    """Recover the text of a cell that ``guarded`` made."""
    begins = zip(cell, _begins_formula(cell), strict=True)
    return "".join(
        char for char, is_formula in begins if not (is_formula and char == _QUOTE)
    )


def _begins_formula(text: str) -> list[bool]:
    """For each character, whether a formula may begin there, after what readers drop."""
    flags = []
    leads_to_formula = False
    # From the end, so that each character knows what follows it.
    before = f"\n{text[:-1]}"
    for char, previous in zip(reversed(text), reversed(before), strict=False):
        is_dropped = char.isspace() or char in _DROPPED
        leads_to_formula = char in _FORMULA or (leads_to_formula and is_dropped)
        flags.append(leads_to_formula and previous in _ENDS)
    flags.reverse()
    return flags


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """Write CSV with guarded cells; a byte order mark makes Excel read it as UTF-8."""
    file = StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return file.getvalue().encode("utf-8-sig", "replace")


def read_table(path: Path) -> list[dict[str, Any]]:
    """Read a file's rows that are not empty, by column; see ``read_rows``.

    CSV may have any form in which a spreadsheet saves it, including another encoding.
    """
    content = read_bytes(path)
    if path.suffix in (".json", ".jsonl", ".ndjson", ".parquet"):
        return rows_of(path, content)
    # The first bytes of .xlsx and .ods, which are ZIP files.
    if content.startswith(b"PK"):
        raise DataError(
            f"{path}: save the sheet as CSV (UTF-8): this is a spreadsheet's own format"
        )
    text = re.sub(r"\Asep=.*\n", "", _decoded(content), flags=re.IGNORECASE)
    rows = []
    for cells in rows_of(path, text.encode()):
        row = {name: cell for name, cell in cells.items() if name}
        if any(cell and cell.strip() for cell in row.values()):
            rows.append(row)
    if not rows:
        raise DataError(f"{path}: add rows: it has none")
    return rows


def _decoded(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", "replace")
    else:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            # Older Excel's; keys, draws and labels are the same in it.
            text = content.decode("cp1252", "replace")
    return text.lstrip("\ufeff")
