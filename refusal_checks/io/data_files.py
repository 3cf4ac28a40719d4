"""Rows of data files: CSV, JSON, JSONL and Parquet, by column.

All files are UTF-8, with or without a byte order mark, and of at most ``LARGEST`` bytes.
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.suggestions import suggest
from refusal_checks.core.text import is_name, join_names
from refusal_checks.io import parquet
from refusal_checks.io.files import LARGEST, explain_missing_file, read_bytes
from refusal_checks.io.strict_json import parse_json

TYPES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
"""The suffixes of data files."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, by column; its suffix says which of ``TYPES`` it is.

    In CSV, the most frequent of comma, semicolon and tab in the header is the separator.
    """
    if path.suffix not in TYPES:
        why = (
            explain_missing_file(path)
            or "save its rows as .csv, .json, .jsonl or .parquet, and name that file"
        )
        raise DataError(f"{path}: {why}")
    content = read_bytes(path)
    rows: Iterable[dict[str, Any]]
    if path.suffix == ".parquet":
        rows = parquet.rows(parquet.read_table(BytesIO(content), path))
    elif path.suffix == ".json":
        rows = _objects(path, _decode(path, content))
    elif path.suffix in (".jsonl", ".ndjson"):
        rows = _json_lines(path, _decode(path, content))
    else:
        rows = _csv_rows(path, _decode(path, content))
    read = list(rows)
    if not read:
        raise DataError(f"{path}: add rows: it has none")
    return read


def _decode(path: Path, content: bytes) -> str:
    content = content.removeprefix(BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        line = content.count(b"\n", 0, fault.start) + 1
        column = fault.start - content.rfind(b"\n", 0, fault.start)
        raise DataError(
            f"{path}: line {line}, column {column}: save the file as UTF-8: this byte is "
            f"{content[fault.start]:#x}"
        ) from None


def _csv_rows(path: Path, text: str) -> Iterator[dict[Any, Any]]:
    csv.field_size_limit(LARGEST)  # 128 KiB by default, less than some answers have
    # Not csv.Sniffer, which takes letters for separators where texts are long.
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)
    rows = csv.DictReader(StringIO(text, newline=""), strict=True, delimiter=separator)
    try:
        for row in rows:
            # Spreadsheets end with rows of a few empty cells.
            if None in row.values() and any(row.values()):
                raise DataError(
                    f"{path}: line {rows.line_num}: give the row as many cells as the header"
                )
            if any(row.get(None) or ()):  # the rest of an answer, perhaps
                raise DataError(
                    f"{path}: line {rows.line_num}, column {len(row)}: put texts with "
                    f"{separator!r} in quotes: the row has more cells than the header"
                )
            yield row
    except csv.Error as fault:
        # The row before ends in this line.
        raise DataError(
            f"{path}: line {rows.line_num + 1}: close each quotation mark, and double those "
            f"inside a text: not valid CSV: {fault}"
        ) from None


def _json_lines(path: Path, text: str) -> Iterator[dict[str, Any]]:
    # Only line feeds end a row, because texts hold every other kind of line separator.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        row = _parse(path, line, number)
        if not isinstance(row, dict):
            raise DataError(
                f"{path}: line {number}: write a JSON object on each line, or name the file .json "
                "if it is one list"
            )
        yield row


def _objects(path: Path, text: str) -> list[dict[str, Any]]:
    rows = _parse(path, text)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            f"{path}: write a list of JSON objects, or rename the file to .jsonl if it has one per "
            "line"
        )
    return rows


def _parse(path: Path, text: str, number: int = 1) -> Any:
    """Parse JSON that starts on line ``number`` of a file."""
    try:
        return parse_json(text, unique=True)
    except JSONDecodeError as fault:
        raise DataError(
            f"{path}: line {number + fault.lineno - 1}, column {fault.colno}: correct it: not "
            f"valid JSON: {fault.msg}"
        ) from None
    except ValueError as fault:
        raise DataError(f"{path}: line {number}: not valid JSON: {fault}") from None


def header(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of all rows, in order; a row of JSONL may lack some."""
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(filter(None, row)))
    return list(columns)


def require_in_data(
    name: str, valid: Iterable[str], where: str, what: str = "column"
) -> None:
    """Raise a DataError unless the data has this column or value; see ``require_known``.

    The message lists only short names, because a file may have many columns with long names.
    """
    names = set(filter(None, valid))  # a row that is too long has cells of no column
    if name not in names:
        hint = suggest(name, sorted(filter(is_name, names))) or "."
        if what == "column" and hint == "." and ".csv" in where:
            hint = "; the first line of a CSV file names its columns."
        raise DataError(f'{where}: no {what} "{name}"{hint} Known: {join_names(names)}')


def read_columns(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Read the rows of a file that must have these columns."""
    rows = read_rows(path)
    for column in columns:
        require_in_data(column, header(rows), str(path))
    return rows
