"""Files: written whole or not at all; JSON and tables from elsewhere, read strictly."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.suggestions import near
from refusal_checks.core.text import clean, is_name, listed

_NAME = re.compile(r"\w(?:[\w .+-]{0,98}[\w+-])?")


def is_file_name(name: str) -> bool:
    """True if a file of this name lies in its folder, on any system and whoever chose the name."""
    return _NAME.fullmatch(name) is not None


FILE_NAME = "1 to 100 letters, digits and _ . + - or spaces within"
"""What ``is_file_name`` asks for."""


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write the lines of a text file in UTF-8 as they come, each with its line feed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.writelines(line.encode("utf-8", "replace") for line in lines)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)  # gives its space back to a disk that may be full
        raise


def write_text(path: Path, text: str) -> None:
    write_lines(path, [text])


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False))


DEPTH = 100
"""Most levels of lists and objects within each other; Python's own limit is near 1,000, and what
passes it can still be too deep for the next function that descends."""


def parse_json(text: str | bytes, unique: bool = False) -> Any:
    """The value of a JSON text, which must be UTF-8 and nested no more deeply than ``DEPTH``.

    Lone surrogates, which JSON can spell and no file can hold, are replaced. ``unique`` refuses
    objects that have a key twice, of which JSON keeps the last. All faults are a ValueError.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique else None)
        if "\\ud" in text or "\\uD" in text:
            whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            value = json.loads(whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if text.count("[") + text.count("{") > DEPTH:
        level = [value]
        for _ in range(DEPTH):
            dicts = (one.values() for one in level if isinstance(one, dict))
            lists = (one for one in level if isinstance(one, list))
            level = [child for children in chain(dicts, lists) for child in children]
        if level:
            raise ValueError(f"it is nested more than {DEPTH} levels deep")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the key "{clean(twice, 60)}" is there twice; remove one')
    return found


LINE = 64 * 2**20
"""Most characters of a line of JSONL: one row, which is held in memory as a whole."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, by column.

    ``.json`` is JSON, ``.jsonl`` and ``.ndjson`` are JSONL, all others CSV, whose separator is the
    comma, semicolon or tab that the header has most of.
    """
    return rows_of(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValueError as fault:  # a name that no file can have
        raise DataError(f"{str(path)!r}: cannot be read: {fault}") from None


def rows_of(path: Path, content: bytes) -> list[dict[str, Any]]:
    """The rows in the content of a file, as ``read_rows`` gives them."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = 1 + content.count(b"\n", 0, fault.start)
        is_wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        found = "it is UTF-16" if is_wide else f"line {line} is not (Latin-1, perhaps)"
        raise DataError(f"{path}: save it as UTF-8: {found}") from None
    try:
        if path.suffix in (".jsonl", ".ndjson"):
            rows = _json_rows(path, text)
        elif path.suffix == ".json":
            rows = objects(path, parsed(path, text))
        else:
            csv.field_size_limit(sys.maxsize)
            separator = max(",;\t", key=text.partition("\n")[0].count)
            # Only line feeds end a row, because texts hold every other kind of line separator.
            lines = StringIO(text, newline="")
            rows = list(csv.DictReader(lines, strict=True, delimiter=separator))
    except (ValueError, csv.Error) as fault:
        raise DataError(f"{path}: not a CSV, JSON or JSONL file: {fault}") from None
    if not rows:
        raise DataError(f"{path}: no rows")
    return rows


def parsed(where: object, text: str | bytes) -> Any:
    """The value of a JSON text of a file; ``where`` names that in messages."""
    try:
        return parse_json(text, unique=True)
    except ValueError as fault:
        raise DataError(f"{where}: not valid JSON: {fault}") from None


def objects(path: Path, value: Any) -> list[dict[str, Any]]:
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
    """The column of each field that a file with the ``known`` columns has.

    ``usual`` has names of columns, the best first, and ``given`` what the user's ``option`` says.
    """
    for field, column in given.items():
        require_known(field, usual, f"{option} {field}={column}", "field", DataError)
        require_in_data(column, known, f"{path}: {option} {field}={column}")
    wanted = {**usual, **{field: [column] for field, column in given.items()}}
    found = ((field, [one for one in names if one in known]) for field, names in wanted.items())
    return {field: columns[0] for field, columns in found if columns}


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that has these columns, each cell as text."""
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
        if len(line) > LINE:
            raise DataError(
                f"{path}: line {number}: write one row a line, of at most {LINE >> 20} MiB; this "
                f"one has {len(line) >> 20} MiB"
            )
        if line.strip():
            rows.append(parsed(f"{path}: line {number}", line))
            if not isinstance(rows[-1], dict):
                raise DataError(f"{path}: line {number}: must be a JSON object")
    return rows
