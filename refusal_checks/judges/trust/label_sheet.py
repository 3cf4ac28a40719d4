"""Label sheets: what ``sample-for-labels`` writes, and what comes back from people's spreadsheets.

Spreadsheets change the separator, the encoding, the order of rows and columns, and the case of what
they complete; none of that matters here. Columns are found by name, and others are ignored.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from refusal_checks.core.errors import CalibrationError, DataError, require_known
from refusal_checks.core.files import header, read_rows, require_in_data
from refusal_checks.core.text import brief
from refusal_checks.core.verdicts import Label
from refusal_checks.judges.trust import spreadsheet
from refusal_checks.judges.trust.confusion import REFUSAL
from refusal_checks.judges.trust.label_draw import Answer, Draw
from refusal_checks.judges.trust.scale import Partial, classes

HEADER = ("label", "prompt", "answer", "key", "draw")

_DRAW_ONE = (
    "Draw a sheet from this run's answers with `refusal-checks sample-for-labels RUN`, or give "
    "--allow-undrawn-labels: such labels are shown and decide nothing, unless they cover every "
    "prompt"
)


@dataclass(frozen=True)
class LabelledRow:
    """One row with a label.

    Attributes:
        where: file and row, for messages; row 1 is the first below the header.
        key: of the answer (``answer_key``); empty in a row that was not drawn.
        draw: None for a row that was not drawn, which is found by its texts.
        texts: prompt and answer, in the form of ``plain``.
    """

    where: str
    label: Label
    key: str
    draw: Draw | None
    texts: tuple[str, str]

    @property
    def answer(self) -> str | tuple[str, str]:
        """What identifies its answer: the key or, without one, the texts."""
        return self.key or self.texts


def to_csv(drawn: Iterable[tuple[Draw, list[Answer]]]) -> bytes:
    """The rows to label, prompt by prompt, without labels and without the judge's verdicts."""
    rows = (
        ("", answer.prompt, answer.answer, answer.key, str(draw))
        for draw, group in drawn
        for answer in group
    )
    return spreadsheet.table(HEADER, rows)


def plain(text: str) -> str:
    """A text in the form in which a sheet's cells are compared with a run's texts."""
    return " ".join(spreadsheet.guarded(spreadsheet.unguarded(text)).split())


def read(
    path: Path, allow_undrawn: bool = False, partial: Partial = "refusal"
) -> list[LabelledRow]:
    """The rows of a sheet that have a label.

    Args:
        allow_undrawn: accept rows that name no draw, by their prompt and answer.

    Raises:
        CalibrationError: a label is unknown, a row names no draw, or there are no labels.
        DataError: the file is not such a table.
    """
    table = _cells(path)
    columns = list(dict.fromkeys(name for row in table for name in row))
    if "draw" not in columns and not allow_undrawn:
        raise CalibrationError(
            f"{path}: it has no column draw, so nothing says that its rows are a random sample of "
            f"this run's answers. {_DRAW_ONE}"
        )
    needed = ("label", "key") if "draw" in columns else ("label", "prompt", "answer")
    for name in needed:
        require_in_data(name, columns, str(path))
    known = classes(partial)
    rows = [
        _row(f"{path}: row {number}", row, known)
        for number, row in enumerate(table, 1)
        if row.get("label", "").strip()
    ]
    if not rows:
        raise CalibrationError(f'{path}: fill in its column "label": no row has a label')
    undrawn = [row for row in rows if row.draw is None]
    if undrawn and not allow_undrawn:
        raise CalibrationError(
            f"{undrawn[0].where}: {len(undrawn)} labelled rows name no draw in their column draw, "
            f"this one first. {_DRAW_ONE}"
        )
    return rows


def _row(where: str, cells: dict[str, str], known: dict[str, str]) -> LabelledRow:
    text = " ".join(cells["label"].lower().split()).replace(" ", "_")
    shown = text if len(text) <= 30 else brief(text)  # a text in the wrong column stays unsaid
    require_known(shown, known, where, "label", CalibrationError)
    key, draw = cells.get("key", "").strip(), Draw.read(cells.get("draw", ""))
    return LabelledRow(
        where,
        Label.REFUSAL if known[text] == REFUSAL else Label.COMPLIANCE,
        key if draw else "",
        draw if key else None,
        (plain(cells.get("prompt", "")), plain(cells.get("answer", ""))),
    )


def _cells(path: Path) -> list[dict[str, str]]:
    """The rows that are not empty, as text by column in lower case."""
    if path.suffix in (".jsonl", ".ndjson"):
        table = read_rows(path)
        columns = header(table)
        rows = [[_text(row.get(name)) for name in columns] for row in table]
    else:
        columns, *rows = _spreadsheet(path)
    names = [" ".join(name.lower().split()) for name in columns]
    return [dict(zip(names, row, strict=False)) for row in rows if any(map(str.strip, row))]


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


def _spreadsheet(path: Path) -> list[list[str]]:
    """The header and the rows of a CSV file in whatever form a spreadsheet saved it."""
    text = _decoded(path).lstrip("\ufeff")
    first, _, rest = text.partition("\n")
    if first.lower().startswith("sep="):
        text, first = rest, rest.partition("\n")[0]
    csv.field_size_limit(sys.maxsize)
    separator = max(",;\t", key=first.count)
    try:
        table = list(csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as fault:
        raise DataError(f"{path}: not a CSV file: {fault}") from None
    if not table:
        raise DataError(f"{path}: no rows")
    return table


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from None
    if data.startswith(b"PK"):
        raise DataError(
            f"{path}: save the sheet as CSV (UTF-8): this is a spreadsheet's own format"
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")  # keys, draws and labels are the same in it
