"""Write tables of untrusted text that are safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable, Sequence
from io import StringIO

from refusal_checks.core.text import HIDDEN

_FORMULA = "=+@＝＋－＠-"
"""A cell that starts with one of these may be read as a formula."""

_QUOTE = "'"
"""Marks such a cell as text; spreadsheets may hide or show it."""

_JOINERS = "\u200c\u200d"
"""Invisible, but Persian, Bengali and emoji are spelled with them."""

_DROPPED = frozenset(f"\"'{_JOINERS}")
"""What may come before a formula, apart from white space."""

_ENDS = frozenset("\n;|\t")
"""What may end a cell. A spreadsheet whose separator is not the comma (in much of the world it is
the semicolon) divides a quoted cell at its own separator, and ends a row at each line break."""

_LONGEST = 15_000
"""The most characters of a text to show: even with a quote before each, they fit an Excel cell."""


def guard_cell(text: str) -> str:
    """Make text a safe cell: never a formula, no control characters, not too long.

    Bidirectional marks and other invisible characters become U+FFFD, so that people judge the text
    that the model wrote and not a reordered one.

    It is safe for spreadsheets with another separator, too: whatever might be read as a formula
    gets a leading quote.
    """
    kept = "".join(
        _visible(char)
        for char in text
        if char == "\n" or unicodedata.category(char) != "Cc"
    )
    if len(kept) > _LONGEST:
        half = _LONGEST // 2
        left_out = len(kept) - 2 * half
        kept = f"{kept[:half]}\n[... {left_out} characters ...]\n{kept[-half:]}"
    begins = zip(kept, _find_formulas(kept), strict=True)
    return "".join(_QUOTE + char if is_formula else char for char, is_formula in begins)


def _visible(char: str) -> str:
    if char == "\n" or char in _JOINERS:
        return char
    return "\ufffd" if unicodedata.category(char) in HIDDEN else char


def _find_formulas(text: str) -> list[bool]:
    """For each character, whether a formula may begin there once readers drop what precedes it."""
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


def write_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """Write CSV with guarded cells; a byte order mark makes Excel read it as UTF-8."""
    file = StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([guard_cell(cell) for cell in row] for row in rows)
    return file.getvalue().encode("utf-8-sig", "replace")
