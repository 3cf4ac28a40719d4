"""A user's own benchmark: a file or a data set of the hub, described in a threshold file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from refusal_checks.benchmarks import choices
from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.core.errors import DataError
from refusal_checks.core.files import header, parse_json, read_rows, require_in_data
from refusal_checks.core.prompts import Kind, Message, Prompt, Role
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.core.text import brief

KINDS = {"refuse": Kind.SAFETY, "answer": Kind.SANITY, "report": Kind.SENSITIVE}
"""Kinds of benchmarks by what their tables expect."""

_KEYS = 8
"""Most keys of an object that a message names."""

_WITH_RUBRIC = ("degree", "rating", "strongreject")
"""Ways of judging that take a rubric."""


def custom(name: str, table: BenchmarkTable) -> Benchmark:
    """The benchmark that a table with ``file`` or ``dataset`` describes; does not read the data."""
    if table.file and table.dataset:
        raise DataError(f"[{name}]: give file or dataset, not both")
    kind, judge = _kind(name, table)
    guide = _rubric(name, table)
    if table.file:
        path = Path(table.file)
        load = partial(_from_file, name, table, path)
        text, version = f"rows of {path.name}", _version(path)
        return Benchmark(name, kind, text, load, version, judge, category_guide=guide)
    assert table.dataset is not None, "a table of a user's own has a file or a data set"
    folder = f"hub/{table.dataset}"
    split = HubSplit(table.dataset, table.revision or "main", table.split, folder)
    load = partial(_from_hub, name, table, split)
    text = f"split {table.split} of {table.dataset}"
    return Benchmark(name, kind, text, load, split.revision, judge, (split,), category_guide=guide)


def _kind(name: str, table: BenchmarkTable) -> tuple[Kind, str]:
    if table.options:
        if table.expect:
            raise DataError(f"[{name}]: leave out expect: options make it multiple choice")
        return Kind.RECOGNITION, "multiple_choice"
    if table.key:
        raise DataError(f"[{name}] key: say which options there are: options = COLUMN")
    if table.expect is None:
        raise DataError(f'[{name}]: say expect = "refuse", "answer" or "report"')
    return KINDS[table.expect], Benchmark.judge


def _rubric(name: str, table: BenchmarkTable) -> Path | None:
    if table.rubric is None:
        return None
    if table.judge not in _WITH_RUBRIC:
        known = " or ".join(f'"{judge}"' for judge in _WITH_RUBRIC)
        raise DataError(f"[{name}] rubric: add judge = {known}, whose judges read a rubric")
    path = Path(table.rubric)
    if path.suffix != ".md" or not path.is_file():
        raise DataError(f"[{name}] rubric: name a Markdown file (.md): {path} is none")
    return path


def _version(path: Path) -> str:
    if not path.is_file():
        return "missing"
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _from_file(name: str, table: BenchmarkTable, path: Path, mirror: Path | None) -> list[Prompt]:
    try:
        rows = read_rows(path)
    except DataError as fault:
        raise DataError(f"[{name}] file: {fault}") from None
    return _prompts(name, table, rows, header(rows), str(path))


def _from_hub(
    name: str, table: BenchmarkTable, split: HubSplit, mirror: Path | None
) -> list[Prompt]:
    rows = split.rows(mirror)
    classes = {
        column: feature.names
        for column, feature in rows.features.items()
        if hasattr(feature, "names")
    }
    # The numbers of class labels mean nothing to a reader, so labels are read by their names.
    named = [
        {k: (classes[k][v] if isinstance(v, int) else None) if k in classes else v
         for k, v in row.items()}
        for row in rows
    ]  # fmt: skip
    return _prompts(name, table, named, rows.column_names, split.repository)


def _prompts(
    name: str,
    table: BenchmarkTable,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    where: str,
) -> list[Prompt]:
    named = (table.prompt, table.id, table.cluster, table.key, *table.columns.values())
    for column in filter(None, (*named, *choices.columns(table.options))):
        require_in_data(column, columns, f"[{name}]: {where}")
    if table.id is None and _identifies([row.get("id") for row in rows]):
        table = table.model_copy(update={"id": "id"})
    return [_prompt(name, table, number, row, where) for number, row in enumerate(rows, 1)]


def _identifies(ids: Sequence[Any]) -> bool:
    """True if the cells of a column can be the rows' ids: short, and each another."""
    texts = {str(each) for each in ids if each not in (None, "")}
    return len(texts) == len(ids) and max(map(len, texts), default=0) <= 100


def _prompt(
    name: str, table: BenchmarkTable, number: int, row: Mapping[str, Any], where: str
) -> Prompt:
    place = f"{where}: row {number}: {table.prompt}"
    values = {kind: row.get(column) for kind, column in table.columns.items()}
    groups = {kind: str(value) for kind, value in values.items() if value not in (None, "")}
    row_id = row.get(table.id) if table.id else f"{name}-{number}"
    if row_id in (None, ""):
        raise DataError(f"{where}: row {number} has no {table.id}")
    cluster = row.get(table.cluster) if table.cluster else None
    source = "" if cluster is None else str(cluster)
    messages = _messages(row.get(table.prompt), place)
    prompt = Prompt(str(row_id), messages, groups, cluster=source)
    if table.options is None:
        return prompt
    return choices.with_options(prompt, row, table.options, table.key, f"{where}: row {number}")


def _messages(value: Any, place: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        turns = _json_list(value)
        return _turns(turns, place) if turns else (Message("user", value),)
    if isinstance(value, list) and value:
        return _turns(value, place)
    raise DataError(f"{place}: neither text nor a list of messages, but {_type(value)}")


def _json_list(text: str) -> list[Any] | None:
    """The list that a cell holds, if its first item is a message."""
    if not text.lstrip().startswith("[{"):
        return None
    try:
        turns: list[Any] = parse_json(text)
    except ValueError:
        return None
    return turns if isinstance(turns[0], dict) and "role" in turns[0] else None


def _turns(value: list[Any], place: str) -> tuple[Message, ...]:
    """Messages with role and content, or texts by user and assistant in turn."""
    if all(isinstance(turn, str) for turn in value):
        roles: tuple[Role, ...] = ("user", "assistant")
        messages = [Message(roles[number % 2], text) for number, text in enumerate(value)]
    else:
        messages = [_message(turn, place) for turn in value]
    if messages[-1].role != "user":
        raise DataError(f"{place}: the last turn must be the user's, not {messages[-1].role}'s")
    return tuple(messages)


def _type(value: Any) -> str:
    """The type of a value, without its texts, which may be private."""
    if isinstance(value, Mapping):
        keys = [brief(key) for key in value][:_KEYS]
        return f"an object with {', '.join(keys) or 'nothing'}"
    return "an empty list" if value == [] else type(value).__name__


def _message(turn: Any, place: str) -> Message:
    if not isinstance(turn, Mapping) or not isinstance(turn.get("content"), str):
        raise DataError(f"{place}: a message is {{role, content}} with text, not {_type(turn)}")
    if turn.get("role") not in get_args(Role):
        known = ", ".join(get_args(Role))
        raise DataError(f"{place}: no role {brief(turn.get('role'))}. Known: {known}")
    return Message(cast(Role, turn["role"]), turn["content"])
