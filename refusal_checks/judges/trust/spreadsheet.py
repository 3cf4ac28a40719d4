"""Tables with untrusted text: written safe to open in a spreadsheet, read as one saves them."""

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

_FORMULA = (
    "=+@＝＋－＠-"  # a cell that starts with one of these may be read as a formula
)
_QUOTE = "'"  # in front of such a cell it marks text; spreadsheets hide it or show it

_DROPPED = frozenset("\"'\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
"""What may stand in front of a formula beside white space: quotes, invisible characters."""

_ENDS = frozenset("\n;|\t")
"""What may end a cell. A spreadsheet whose separator is not the comma (in much of the world it is
the semicolon) divides a quoted cell at its own separator, and ends a row at each line break."""

_CELL = 32_000  # number of characters that every spreadsheet keeps in a cell (Excel: 32,767)


def guarded(text: str) -> str:
    """Text as a harmless cell: never a formula, no control characters, not too long.

    That holds for what a spreadsheet with another separator makes of it too: whatever might be read
    as a formula gets a quote in front, which ``unguarded`` takes away.
    """
    kept = "".join(
        char for char in text if char == "\n" or unicodedata.category(char) != "Cc"
    )
    cut, size = kept, _CELL
    while True:
        if len(kept) > size:
            half = size // 2 - 50
            left_out = len(kept) - 2 * half
            cut = f"{kept[:half]}\n[... {left_out} characters ...]\n{kept[-half:]}"
        begins = zip(cut, _begins_formula(cut), strict=True)
        cell = "".join(
            _QUOTE + char if is_formula else char for char, is_formula in begins
        )
        if len(cell) <= _CELL:
            return cell
        size //= 2


def unguarded(cell: str) -> str:
    begins = zip(cell, _begins_formula(cell), strict=True)
    return "".join(
        char for char, is_formula in begins if not (is_formula and char == _QUOTE)
    )


def _begins_formula(text: str) -> list[bool]:
    """Whether a cell may begin at each character with a formula, after what readers drop."""
    found, is_lead = [], False
    for char, before in zip(reversed(text), reversed(f"\n{text[:-1]}"), strict=False):
        is_dropped = char.isspace() or char in _DROPPED
        is_lead = char in _FORMULA or (is_lead and is_dropped)
        found.append(is_lead and before in _ENDS)
    return found[::-1]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A CSV file of guarded cells; its byte order mark makes Excel read it as UTF-8."""
    file = StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return file.getvalue().encode("utf-8-sig", "replace")


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that are not empty, by column; see ``read_rows``.

    CSV may be in whatever form a spreadsheet saved it, also in another encoding.
    """
    content = read_bytes(path)
    if path.suffix in (".json", ".jsonl", ".ndjson", ".parquet"):
        return rows_of(path, content)
    if content.startswith(b"PK"):
        raise DataError(
            f"{path}: save the sheet as CSV (UTF-8): this is a spreadsheet's own format"
        )
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", "replace")
    else:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = content.decode(
                "cp1252", "replace"
            )  # keys, draws and labels are the same in it
    text = re.sub(r"\Asep=.*\n", "", text.lstrip("\ufeff"), flags=re.IGNORECASE)
    table = (
        {name: row[name] for name in row if name}
        for row in rows_of(path, text.encode())
    )
    rows = [row for row in table if any(cell and cell.strip() for cell in row.values())]
    if not rows:
        raise DataError(f"{path}: add rows: it has none")
    return rows
