"""Tables in files: CSV, JSON with a list of objects, or JSONL with one object per line."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.json_text import parse
from refusal_checks.core.mistakes import near
from refusal_checks.core.text import is_name, listed


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, by column.

    ``.json`` is JSON, ``.jsonl`` and ``.ndjson`` are JSONL, all others CSV.

    Raises:
        DataError: the file is missing, empty or malformed.
    """
    return rows_of(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """What a file holds.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValueError as fault:  # a name that no file can have
        raise DataError(f"{str(path)!r}: cannot be read: {fault}") from None


def rows_of(path: Path, content: bytes) -> list[dict[str, Any]]:
    """The rows in the content of a file, as ``read_rows`` gives them.

    Raises:
        DataError: it is empty or malformed.
    """
    try:
        text = content.decode("utf-8-sig")
        if path.suffix in (".jsonl", ".ndjson"):
            rows = _json_rows(path, text)
        elif path.suffix == ".json":
            rows = objects(path, parsed(path, text))
        else:
            csv.field_size_limit(sys.maxsize)
            # Only line feeds end a row, because texts hold every other kind of line separator.
            rows = list(csv.DictReader(StringIO(text, newline=""), strict=True))
    except (ValueError, csv.Error) as fault:
        raise DataError(f"{path}: not a CSV, JSON or JSONL file: {fault}") from None
    if not rows:
        raise DataError(f"{path}: no rows")
    return rows


def parsed(path: Path, text: str | bytes) -> Any:
    """The value of a file of JSON.

    Raises:
        DataError: it is not JSON.
    """
    try:
        return parse(text)
    except ValueError as fault:
        raise DataError(f"{path}: not valid JSON: {fault}") from None


def objects(path: Path, value: Any) -> list[dict[str, Any]]:
    """The rows of a file of JSON.

    Raises:
        DataError: its value is not a list of objects.
    """
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise DataError(
            f"{path}: must be a list of JSON objects, or name it .jsonl if each line is one"
        )
    return value


def header(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of all rows, in order; a row of JSONL may lack some."""
    return list(dict.fromkeys(column for row in rows for column in row if column))


def require_in_data(name: str, known: Iterable[str], where: str, what: str = "column") -> None:
    """Raise a DataError unless data has this column or value; see ``require_known``.

    The message lists short names only: a file may have texts for columns, and any number of them.
    """
    names = set(filter(None, known))  # a row that is too long has cells of no column
    if name not in names:
        hint = near(name, sorted(filter(is_name, names))) or "."
        raise DataError(f'{where}: no {what} "{name}"{hint} Known: {listed(names)}')


def find_columns(
    path: Path,
    known: Sequence[str],
    usual: Mapping[str, Sequence[str]],
    given: Mapping[str, str],
    option: str,
) -> dict[str, str]:
    """The column of each field that a file has.

    Args:
        known: the file's columns.
        usual: names that columns of a field usually have, by field, the best first.
        given: column by field, where the user named one with the option.
        option: its name, for messages.

    Raises:
        DataError: the user named a field or a column that does not exist.
    """
    for field, column in given.items():
        require_known(field, usual, f"{option} {field}={column}", "field", DataError)
        require_in_data(column, known, f"{path}: {option} {field}={column}")
    wanted = {**usual, **{field: [column] for field, column in given.items()}}
    found = {
        field: next((name for name in names if name in known), None)
        for field, names in wanted.items()
    }
    return {field: column for field, column in found.items() if column is not None}


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that has these columns, each cell as text.

    Raises:
        DataError: a column is missing, or a row is too short or too long; the message names it.
    """
    rows = read_rows(path)
    for column in columns:
        require_in_data(column, header(rows), str(path))
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise DataError(f"{path}: row {number} does not have as many cells as the header")
    return rows


def _json_rows(path: Path, text: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = parse(line)
        except ValueError as fault:
            raise DataError(f"{path}: line {number}: not valid JSON: {fault}") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}: line {number}: must be a JSON object")
        rows.append(row)
    return rows
