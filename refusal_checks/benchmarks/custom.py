"""A user's own benchmark: a file or a data set on the hub, described in a run file."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, get_args

from refusal_checks.benchmarks import answer_key, hub
from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.data_files import header, read_rows, require_in_data
from refusal_checks.core.errors import DataError
from refusal_checks.core.files import sha256
from refusal_checks.core.prompts import Kind, Message, Prompt, Role
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import brief

KINDS = {"refuse": Kind.SAFETY, "answer": Kind.SANITY, "report": Kind.SENSITIVE}
"""Kinds of benchmarks by what their tables expect."""

_KEYS = 8
"""Most keys of an object that a message names."""

_WITH_RUBRIC = ("degree", "rating")
"""Ways of judging that take a rubric."""


def custom(name: str, table: BenchmarkTable) -> Benchmark:
    """Make the benchmark that a table with ``file`` or ``dataset`` describes; reads no data."""
    here = table.where or f"[{name}]"
    if table.file and table.dataset:
        raise DataError(f"{here}: give file or dataset, not both")
    if table.options and table.expect:
        raise DataError(f"{here}: leave out expect: options make it multiple choice")
    if table.key and not table.options:
        raise DataError(f"{here} key: say which options there are: options = COLUMN")
    if not table.options and table.expect is None:
        raise DataError(f'{here}: say expect = "refuse", "answer" or "report"')
    kind, judge = Kind.RECOGNITION, "multiple_choice"
    if table.expect:
        kind, judge = KINDS[table.expect], Benchmark.judge
    guide = _rubric(here, table)
    if table.file:
        return _from_file(name, table, kind, judge, guide)
    return _from_hub(name, table, kind, judge, guide)


def _from_file(
    name: str, table: BenchmarkTable, kind: Kind, judge: str, guide: Path | None
) -> Benchmark:
    assert table.file
    path = Path(table.file)

    def load(mirror: Path | None) -> list[Prompt]:
        try:
            rows = read_rows(path)
        except DataError as fault:
            where = table.where or f"[{name}]"
            raise DataError(f"{where} file: {fault}") from None
        return _prompts(name, table, rows, header(rows), str(path))

    revision = "missing"  # or unreadable: reading the rows says so
    with suppress(OSError):
        if path.is_file():
            revision = f"sha256:{sha256(path)}"
    text = f"rows of {path.name}"
    return Benchmark(name, kind, text, load, revision, judge, category_guide=guide)


def _from_hub(
    name: str, table: BenchmarkTable, kind: Kind, judge: str, guide: Path | None
) -> Benchmark:
    assert table.dataset, "a table of a user's own has a file or a data set"
    folder = f"hub/{table.dataset}"
    split = hub.HubSplit(table.dataset, table.revision or "main", table.split, folder)

    def load(mirror: Path | None) -> list[Prompt]:
        rows = split.rows(mirror)
        named = list(hub.named(rows, split.repository))
        return _prompts(name, table, named, rows.column_names, split.repository)

    return Benchmark(
        name,
        kind,
        f"split {table.split} of {table.dataset}",
        load,
        split.revision,
        judge,
        (split,),
        category_guide=guide,
    )


def _rubric(here: str, table: BenchmarkTable) -> Path | None:
    if table.rubric is None:
        return None
    if table.judge not in _WITH_RUBRIC:
        judges = " or ".join(f'"{judge}"' for judge in _WITH_RUBRIC)
        raise DataError(
            f"{here} rubric: add judge = {judges}, whose judges read a rubric"
        )
    path = Path(table.rubric)
    if path.suffix != ".md" or not path.is_file():
        raise DataError(f"{here} rubric: name a Markdown file (.md): {path} is none")
    return path


def _prompts(
    name: str,
    table: BenchmarkTable,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    where: str,
) -> list[Prompt]:
    _require_columns(name, table, columns, where)
    id_column = table.id
    if id_column is None and _identifies([row.get("id") for row in rows]):
        id_column = "id"
    prompts = []
    for number, row in enumerate(rows, 1):
        place = f"{where}: row {number}"
        row_id = row.get(id_column) if id_column else f"{name}-{number}"
        if row_id in (None, ""):
            raise DataError(f"{place} has no {id_column}")
        groups = {}
        for kind, column in table.columns.items():
            value = row.get(column)
            if value not in (None, ""):
                groups[kind] = str(value)
        cluster = row.get(table.cluster) if table.cluster else None
        messages = _messages(row.get(table.prompt), f"{place}: {table.prompt}")
        source = "" if cluster is None else str(cluster)
        judged = table.judge_sees or "judge_sees"
        plain = row.get(judged)
        seen = () if plain in (None, "") else _messages(plain, f"{place}: {judged}")
        prompt = Prompt(
            str(row_id),
            messages,
            groups,
            cluster=source,
            judge_sees=seen,
        )
        if table.options is not None:
            prompt = answer_key.with_options(
                prompt, row, table.options, table.key, place
            )
        prompts.append(prompt)
    return prompts


def _require_columns(
    name: str, table: BenchmarkTable, columns: Sequence[str], where: str
) -> None:
    """Raise DataError unless the data has all columns that the table names."""
    named = [
        *(table.prompt, table.judge_sees, table.id, table.cluster),
        *(table.options, table.key),
        *table.columns.values(),
    ]
    for column in named:
        if column:
            require_in_data(column, columns, f"{table.where or name}: {where}")


def _identifies(ids: Sequence[Any]) -> bool:
    """True if a column's cells can be the rows' ids: short and distinct."""
    texts = {str(cell) for cell in ids if cell not in (None, "")}
    longest = max((len(text) for text in texts), default=0)
    return len(texts) == len(ids) and longest <= 100


def _messages(value: Any, place: str) -> tuple[Message, ...]:
    """Parse a user's text, a list of messages, or texts by user and assistant in turn."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise DataError(f"{place}: write a prompt, or remove the row: it is empty")
    if isinstance(value, str):
        turns = _json_list(value)
        if turns is None:
            return (Message("user", value),)
    elif isinstance(value, list) and value:
        turns = value
    else:
        raise DataError(
            f"{place}: write a text or a list of messages: it is {_type(value)}"
        )
    if all(isinstance(turn, str) for turn in turns):
        roles: tuple[Role, ...] = ("user", "assistant")
        messages = [Message(roles[n % 2], text) for n, text in enumerate(turns)]
    else:
        messages = [_message(turn, place) for turn in turns]
    if messages[-1].role != "user":
        raise DataError(
            f"{place}: the last turn must be the user's, not {messages[-1].role}'s"
        )
    return tuple(messages)


def _json_list(text: str) -> list[Any] | None:
    """The JSON list in a cell, if its first item is a message."""
    if not text.lstrip().startswith("[{"):
        return None
    try:
        turns: list[Any] = parse_json(text)
    except ValueError:
        return None
    return turns if isinstance(turns[0], dict) and "role" in turns[0] else None


def _message(turn: Any, place: str) -> Message:
    content = turn.get("content") if isinstance(turn, Mapping) else None
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        texts = []
        for part in content:
            if not isinstance(part.get("text"), str):
                raise DataError(
                    f"{place}: leave out the part {brief(part.get('type'))}: images and files are "
                    "not supported"
                )
            texts.append(part["text"])
        content = "\n".join(texts)
    if not isinstance(content, str):
        raise DataError(
            f"{place}: write each message as {{role, content}} with a text: one is {_type(turn)}"
        )
    if turn.get("role") not in get_args(Role):
        roles = ", ".join(get_args(Role))
        raise DataError(f"{place}: no role {brief(turn.get('role'))}. Known: {roles}")
    return Message(cast(Role, turn["role"]), content)


_JSON_TYPES = {
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "NoneType": "null",
    "list": "a list",
}
"""What people who write JSON call Python's types."""


def _type(value: Any) -> str:
    """Describe a value's type, without its texts, which may be private."""
    is_file = isinstance(value, Mapping) and {"bytes", "path"} <= value.keys()
    if is_file or "Image" in type(value).__name__:  # of a data set of the hub
        return "an image, which is not supported"
    if isinstance(value, Mapping):
        keys = [brief(key) for key in value][:_KEYS]
        return f"an object with {', '.join(keys) or 'nothing'}"
    if value == []:
        return "an empty list"
    name = type(value).__name__
    return _JSON_TYPES.get(name, name)
