"""Files of recorded answers: tables, and the logs of other evaluation tools.

Each module of ``formats`` reads one tool's files. It defines ``rows(document)``, which returns the
file's rows, or None if the document is not of its format. Nothing else is edited to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from refusal_checks.core.csv_jsonl import header, read_rows, require_in_data
from refusal_checks.core.errors import DataError
from refusal_checks.core.text import clean
from refusal_checks.models.recordings import formats
from refusal_checks.models.recordings.document import Document, Row

_ONE_OF = ("model", "provider", "promptIdx")
"""Columns in which all rows of a recording agree: answers of two models are no samples of one."""


@cache
def discover() -> dict[str, Callable[[Document], list[Row] | None]]:
    """The readers of other tools' files, by format."""
    names = [info.name for info in iter_modules(formats.__path__)]
    return {name: import_module(f"{formats.__name__}.{name}").rows for name in names}


def read(path: Path, only: Mapping[str, str] | None = None) -> list[Row]:
    """The rows of a file of recorded answers, each with one prompt and its answers.

    Args:
        only: read the rows that have these values, by column.

    Raises:
        DataError: the file is missing, empty or malformed; no row has the values; or the file
            holds answers of several models.
    """
    document = Document(path)
    found = (rows(document) for rows in discover().values())
    rows = next((rows for rows in found if rows is not None), None)
    rows = _chosen(path, read_rows(path) if rows is None else rows, only or {})
    for column in _ONE_OF:
        _require_one(path, column, [row[column] for row in rows if row.get(column) is not None])
    return rows


def cell(row: Mapping[str, Any], column: str) -> Any:
    """What a row holds in a column; ``doc.prompt`` and ``resps.0`` look into nested values."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value


def _chosen(path: Path, rows: Sequence[Row], only: Mapping[str, str]) -> list[Row]:
    for column, value in only.items():
        where = f"{path}: --replay-where {column}={value}"
        values = {text(cell(row, column)) for row in rows} - {""}
        if not values:
            require_in_data(column, header(rows), where)
        require_in_data(value, values, where, "value")
        rows = [row for row in rows if text(cell(row, column)) == value]
    if not rows:
        raise DataError(f"{path}: no recorded answers")
    return list(rows)


def text(value: Any) -> str:
    """A value as people write it; booleans as ``true`` and ``false``, nothing as empty."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _require_one(path: Path, column: str, values: Sequence[Any]) -> None:
    several = [clean(each, 100) for each in dict.fromkeys(map(text, values))]
    if len(several) > 1:
        names = ", ".join(several[:8]) + (", ..." if len(several) > 8 else "")
        raise DataError(
            f"{path}: choose one {column} with --replay-where {column}={several[0]}: the file "
            f"holds answers of {len(several)}: {names}"
        )
