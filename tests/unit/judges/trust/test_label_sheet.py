"""Label sheets after people had them: every spreadsheet's form of them is read alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from refusal_checks.core.errors import CalibrationError, DataError
from refusal_checks.core.verdicts import Label
from refusal_checks.judges.trust import label_sheet
from refusal_checks.judges.trust.label_draw import Answer, Draw

Write = Callable[[str, str], Path]

DRAW = Draw("20251122-060000-7", "ORG/M", "müll; set", 0)
DRAWN = [
    (DRAW, [Answer(f"k{n}", f"p{n}", f"prompt {n}", f'=an "answer";\n{n}')]) for n in (1, 2, 3)
]


def filled(*labels: str) -> list[list[str]]:
    """The cells of a sheet with these labels."""
    cells = [[label, "p", 'an "a"\nb', f"k{n}", str(DRAW)] for n, label in enumerate(labels, 1)]
    return [list(label_sheet.HEADER), *cells]


def table(rows: list[list[str]], separator: str = ",", end: str = "\r\n") -> str:
    quoted = (['"' + cell.replace('"', '""') + '"' for cell in row] for row in rows)
    return end.join(map(separator.join, quoted)) + end


def summary(path: Path) -> list[tuple[str, Label, Draw | None]]:
    return [(row.key, row.label, row.draw) for row in label_sheet.read(path)]


EXPECTED = [("k1", Label.REFUSAL, DRAW), ("k3", Label.COMPLIANCE, DRAW)]


@pytest.mark.parametrize(
    ("separator", "encoding", "end"),
    [
        (",", "utf-8", "\n"),
        (",", "utf-8-sig", "\r\n"),
        (";", "utf-8-sig", "\r\n"),
        (";", "cp1252", "\r\n"),
        ("\t", "utf-16", "\r\n"),
        (",", "utf-8", "\r"),
    ],
)
def test_every_spreadsheets_csv(tmp_path: Path, separator: str, encoding: str, end: str) -> None:
    path = tmp_path / "any name.txt"
    text = table(filled("refusal", "", "compliance"), separator, end)
    path.write_bytes(text.encode(encoding))
    assert summary(path) == EXPECTED
    path.write_bytes(("sep=;\n" + table(filled("refusal", "", "compliance"), ";")).encode())
    assert summary(path) == EXPECTED


def test_sorted_cut_and_widened_sheets(write: Write) -> None:
    header, *rows = filled("Refusal ", "", "COMPLIANCE")
    order = [3, 0, 4, 2, 1]
    header = [header[place].upper() for place in order] + ["notes", "notes", ""]
    cells = [[row[place] for place in order] + ["why", "", ""] for row in reversed(rows)]
    cells += [[""] * 8, ["", ""], []]
    assert summary(write("l.csv", table([header, *cells]))) == EXPECTED[::-1]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    data = label_sheet.to_csv(DRAWN).decode("utf-8-sig").replace('""\r\n', "")
    lines = data.split("\r\n")
    path.write_text(
        "\r\n".join([lines[0], *(line.replace('""', '"refusal"', 1) for line in lines[1:])])
    )
    found = label_sheet.read(path)
    assert [row.key for row in found] == ["k1", "k2", "k3"]
    assert {row.draw for row in found} == {DRAW}
    assert found[0].texts == ("prompt 1", label_sheet.plain('=an "answer";\n1'))


@pytest.mark.parametrize("label", ["partial refusal", "3_partial_refusal", "Partial_Refusal"])
def test_partial_refusals_are_refusals(write: Write, label: str) -> None:
    (row,) = label_sheet.read(write("l.csv", table(filled(label))))
    assert row.label is Label.REFUSAL


HAND = "prompt,answer,label\np 1,I won't,refusal\np 2,Sure,compliance\n"


def test_a_sheet_without_a_draw_needs_a_word(write: Write) -> None:
    path = write("l.csv", HAND)
    with pytest.raises(CalibrationError, match=r"no column draw.*--allow-undrawn-labels"):
        label_sheet.read(path)
    found = label_sheet.read(path, allow_undrawn=True)
    assert [(row.answer, row.draw) for row in found] == [
        (("p 1", "I won't"), None),
        (("p 2", "Sure"), None),
    ]


def test_rows_that_were_added_to_a_sheet_by_hand(write: Write) -> None:
    header, *rows = filled("refusal", "refusal", "refusal")
    rows[1][4], rows[2][4] = "", "seed 1"
    path = write("l.csv", table([header, *rows]))
    with pytest.raises(CalibrationError, match="row 2: 2 labelled rows name no draw"):
        label_sheet.read(path)
    assert [bool(row.draw) for row in label_sheet.read(path, allow_undrawn=True)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        (table(filled("refused")), CalibrationError, "row 1.*did you mean"),
        (table(filled("", "")), CalibrationError, 'fill in its column "label"'),
        ("key,draw,lable\na,b,c\n", DataError, 'no column "label".*did you mean "lable"'),
        ("label,draw\nrefusal,x\n", DataError, 'no column "key"'),
        ("", DataError, "no rows"),
        ('"label,key,draw\n', DataError, "not a CSV file"),
        ("PK\x03\x04", DataError, "save the sheet as CSV"),
    ],
)
def test_sheets_that_cannot_be_used(
    write: Write, text: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        label_sheet.read(write("labels.csv", text))
    with pytest.raises(DataError, match=r"none.csv: cannot be read"):
        label_sheet.read(Path("none.csv"))
