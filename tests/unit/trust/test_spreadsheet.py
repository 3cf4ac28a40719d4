"""Cells that people open in a spreadsheet: no formula, nothing lost that can be kept."""

import csv
import io
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refusal_checks.trust.spreadsheet import guard_cell, write_table

FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


NESTED = st.text(alphabet=[*"=+-@;|\"',a1 \n\t", "＝", "\u00a0", "\u200b"], max_size=12)
SEPARATORS = ";\t|,"
INVISIBLE = {"Cf", "Cs", "Co", "Cn"}


@example('";=1+1')
@example('hello\n=HYPERLINK("http://evil")')
@example(';"=1+1";')
@example("a;\n;=1")
@example("\x00=1")
@example("'\u00a0＝1")
@given(NESTED | st.text(max_size=20))
def test_no_separator_makes_a_formula_of_a_cell(text: str) -> None:
    """No reader finds a formula in a sheet with this text, and only quotes are added to it."""
    written = write_table(("key", "text", "label"), [("a", text, "")]).decode(
        "utf-8-sig"
    )
    for separator in SEPARATORS:
        for row in csv.reader(io.StringIO(written, newline=""), delimiter=separator):
            assert not [cell for cell in row if cell.lstrip().startswith(FORMULA)], (
                separator
            )
    cell = list(csv.reader(io.StringIO(written, newline="")))[1][1]
    kept = [
        "\ufffd" if unicodedata.category(char) in INVISIBLE else char
        for char in text
        if char == "\n" or unicodedata.category(char) != "Cc"
    ]
    assert cell.replace("'", "") == "".join(kept).replace("'", "")
    assert written.startswith('"key","text","label"\r\n')


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202eon\u202c", "\ufffdon\ufffd"),
        ("\u2067a\u2069\U000e0061", "\ufffda\ufffd\ufffd"),
        ("\ud800\ue000", "\ufffd\ufffd"),
        ("\ufeff=1", "\ufffd=1"),
        ("\u200d=1", "'\u200d=1"),
        ("می\u200cخواهم 👩\u200d🔬", "می\u200cخواهم 👩\u200d🔬"),
    ],
)
def test_nothing_in_a_cell_is_invisible_or_reordered(text: str, shown: str) -> None:
    assert guard_cell(text) == shown


def test_a_long_text_keeps_its_head_and_tail_and_quotes_make_no_cell_too_long() -> None:
    cell = guard_cell("a" * 30_000 + "b" * 30_000)
    assert cell.startswith("aaa")
    assert cell.endswith("bbb")
    assert "characters ..." in cell
    for long in (cell, guard_cell("-\n" * 16_000), guard_cell(";=" * 15_999)):
        assert len(long) < 32_767
