"""Rows of data files: CSV, JSON, JSONL and Parquet, read strictly and one at a time."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, TextIOWrapper
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.files import _reading
from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.suggestions import near
from refusal_checks.core.text import is_name, listed

LINE = 64 * 2**20
"""Most characters of a JSONL line or a CSV cell, which must fit into memory."""


COLUMNS = 10_000
"""Most columns of a CSV file: each takes about a hundred bytes for each row."""

SEPARATORS = 1_000_000
"""Most separators in a line of a CSV file, those within texts included."""

WHOLE = 256 * 2**20
"""Most bytes of data that can only be read whole: a JSON file, or unpacked archive content."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, by column; see ``rows_in``."""
    return list(rows_in(path))


def rows_in(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, by column, one at a time.

    ``.json`` is JSON, ``.jsonl`` and ``.ndjson`` are JSONL, ``.parquet`` is Parquet, all others are
    CSV. Its separator is whichever of comma, semicolon and tab is most frequent in the header.
    """
    with _reading(path):
        file = path.open("rb")
    with file:
        yield from _rows(path, file)


def rows_of(path: Path, content: bytes) -> list[dict[str, Any]]:
    """The rows in the content of a file, as ``rows_in`` gives them."""
    return list(_rows(path, BytesIO(content)))


def _rows(path: Path, file: BinaryIO) -> Iterator[dict[str, Any]]:
    rows: Iterable[dict[str, Any]]
    row = None
    if path.suffix in (".jsonl", ".ndjson"):
        rows = _json_rows(path, _lines(path, file, "\n"))
    elif path.suffix == ".json":
        rows = objects(path, read_json(path, file))
    elif path.suffix == ".parquet":
        from refusal_checks.core import parquet  # which needs this module

        rows = parquet.rows(parquet.read_table(file, path))
    else:
        rows = _csv_rows(path, file)
    try:
        for row in rows:
            yield row
    except csv.Error as fault:
        raise DataError(
            f"{path}: close each quotation mark, and double those within a text; not a CSV, JSON "
            f"or JSONL file: {fault}"
        ) from None
    if row is None:
        raise DataError(f"{path}: add rows: it has none")


def _csv_rows(path: Path, file: BinaryIO) -> Iterator[dict[Any, Any]]:
    csv.field_size_limit(LINE)
    # Only line feeds end a row, because texts hold every other kind of line separator.
    lines = _lines(path, file, "")
    head = next(lines, "")
    if _JSON.match(head):
        raise DataError(
            f"{path}: name it .jsonl if each line is a JSON object, else .json"
        )
    separator = max(",;\t", key=head.count)
    if head.count(separator) >= COLUMNS:
        raise DataError(
            f"{path}: keep the columns that you need: the header has more than {COLUMNS:,}"
        )
    bounded = _with_few(separator, path, chain([head], lines))
    rows = csv.DictReader(bounded, strict=True, delimiter=separator)
    for number, row in enumerate(rows, 1):
        if any(row.get(None) or ()):  # the rest of an answer, perhaps
            raise DataError(
                f"{path}: row {number}: put texts that hold {separator!r} in quotes: the row has "
                "more cells than the header"
            )
        yield row


def _with_few(separator: str, path: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if line.count(separator) > SEPARATORS:
            raise DataError(
                f"{path}: line {number}: split it or remove it: it has more than {SEPARATORS:,} "
                f"times {separator!r}"
            )
        yield line


def _lines(path: Path, file: BinaryIO, newline: str) -> Iterator[str]:
    """The lines of a text, each with its end; ``newline`` as for ``open``."""
    with TextIOWrapper(file, "utf-8-sig", newline=newline) as text:
        try:
            for number in count(1):
                line = text.readline(LINE + 1)
                if len(line) > LINE:
                    raise DataError(
                        f"{path}: line {number}: write one row a line, of at most {LINE >> 20} "
                        "MiB; this one is longer"
                    )
                if not line:
                    break
                yield line
        except UnicodeDecodeError:
            raise _not_utf8(path, file) from None


_JSON = re.compile(r'\s*(\{\s*"|\[\s*([{"]|$))')
"""How JSON begins; a CSV header does not."""


_PACKED = {
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\x1f\x8b": "packed with gzip",
    b"\x28\xb5\x2f\xfd": "packed with Zstandard",
}
"""The first bytes of files that people often give instead of text."""


def _not_utf8(path: Path, file: BinaryIO) -> DataError:
    """Say which encoding a file has instead of UTF-8, and what to do."""
    file.seek(0)
    start = file.read(4)
    if start == b"PAR1":
        return DataError(f"{path}: name it .parquet: it is a Parquet file")
    for signature, what in _PACKED.items():
        if start.startswith(signature):
            return DataError(
                f"{path}: unpack it, or save it as CSV or JSONL: it is {what}"
            )
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return DataError(f"{path}: save it as UTF-8: it is UTF-16")
    number = _first_line_not_utf8(file)
    return DataError(
        f"{path}: save it as UTF-8: line {number} is not (Latin-1, perhaps)"
    )


def _first_line_not_utf8(file: BinaryIO) -> int:
    file.seek(0)
    for number, line in enumerate(file, 1):
        if line.decode(errors="ignore").encode() != line:
            return number
    raise AssertionError("a line that cannot be decoded was read before")


def read_json(path: Path, file: BinaryIO | None = None) -> Any:
    """The value of a JSON file of at most ``WHOLE`` bytes."""
    with _reading(path), file or path.open("rb") as opened:
        content = opened.read(WHOLE + 1)
    if len(content) > WHOLE:
        raise DataError(
            f"{path}: convert it to JSONL, which is read row by row (for a list of objects: "
            f"jq -c '.[]'): it has more than {WHOLE >> 20} MiB"
        )
    try:
        return parsed(path, content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _not_utf8(path, BytesIO(content)) from None


def parsed(where: object, text: str | bytes, in_line: bool = False) -> Any:
    """Parse JSON text from a file; ``where`` names the file, or its line, in messages."""
    try:
        return parse_json(text, unique=True)
    except ValueError as fault:
        problem = str(fault)
        remedy = "" if "remove one" in problem else "correct it: "
        if in_line:
            problem = problem.replace("line 1 ", "")
        raise DataError(f"{where}: {remedy}not valid JSON: {problem}") from None


def objects(path: Path, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise DataError(
            f"{path}: must be a list of JSON objects, or name it .jsonl if each line is one"
        )
    return value


def header(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of all rows, in order; a row of JSONL may lack some."""
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(filter(None, row)))
    return list(columns)


def require_in_data(
    name: str, valid: Iterable[str], where: str, what: str = "column"
) -> None:
    """Raise a DataError unless data has this column or value; see ``require_known``.

    The message lists short names only: a file may have any number of columns, with long texts for
    names.
    """
    names = set(filter(None, valid))  # a row that is too long has cells of no column
    if name not in names:
        hint = near(name, sorted(filter(is_name, names))) or "."
        raise DataError(f'{where}: no {what} "{name}"{hint} Known: {listed(names)}')


def find_columns(
    path: Path,
    columns: Sequence[str],
    usual: Mapping[str, Sequence[str]],
    given: Mapping[str, str],
    option: str,
) -> dict[str, str]:
    """The column of each field that a file with these columns has.

    ``usual`` lists the usual names of each field's column, best first; ``given`` has the user's
    own, from ``option``.
    """
    for field, column in given.items():
        require_known(field, usual, f"{option} {field}={column}", "field", DataError)
        require_in_data(column, columns, f"{path}: {option} {field}={column}")
    by_field = {}
    for field, names in usual.items():
        if field in given:
            names = [given[field]]
        for name in names:
            if name in columns:
                by_field[field] = name
                break
    return by_field


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that has these columns, each cell as text."""
    rows = read_rows(path)
    for column in columns:
        require_in_data(column, header(rows), str(path))
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise DataError(
                f"{path}: row {number} does not have as many cells as the header"
            )
    return rows


def _json_rows(path: Path, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if number == 1 and line.lstrip().startswith("["):
            raise DataError(
                f"{path}: name it .json: it holds a list, not an object a line"
            )
        if not line.isspace():
            row = parsed(f"{path}: line {number}", line.rstrip(), in_line=True)
            if not isinstance(row, dict):
                raise DataError(f"{path}: line {number}: must be a JSON object")
            yield row
