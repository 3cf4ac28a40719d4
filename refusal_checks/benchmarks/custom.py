"""A user's own benchmark: a file or a Hugging Face data set, described in a run file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from refusal_checks.benchmarks import answer_key, hub
from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Message, Prompt, Role
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.core.text import sanitize
from refusal_checks.io.data_files import header, read_rows, require_in_data
from refusal_checks.io.files import sha256
from refusal_checks.io.strict_json import parse_json

KINDS = {"refuse": Kind.SAFETY, "answer": Kind.SANITY, "report": Kind.SENSITIVE}
"""Kinds of benchmarks by their table's ``expect``."""

_WITH_RUBRIC = ("degree", "rating")
"""Ways of judging that take a rubric."""

_TURNS: tuple[Role, ...] = ("user", "assistant")
"""The speakers of a list of texts without roles, in turn."""


def custom_benchmark(name: str, table: BenchmarkTable) -> Benchmark:
    """Make the benchmark described by a table with ``file`` or ``dataset``; reads no data."""
    here = table.where or f"[{name}]"
    if table.file and table.dataset:
        raise DataError(f"{here}: give file or dataset, not both")
    if table.options and table.expect:
        raise DataError(
            f"{here}: leave out expect: with options, it is multiple choice"
        )
    if table.key and not table.options:
        raise DataError(
            f'{here}: add options = "COLUMN": a key needs the column with the options'
        )
    if not table.options and table.expect is None:
        raise DataError(f'{here}: add expect = "refuse", "answer" or "report"')
    kind, judge = Kind.RECOGNITION, "multiple_choice"
    if table.expect:
        kind, judge = KINDS[table.expect], Benchmark.judge
    split, path = None, Path(table.file or "")
    if table.dataset:
        revision = table.revision or "main"
        folder = f"hub/{table.dataset}"
        split = hub.HubSplit(table.dataset, revision, table.split, folder)
        text = f"split {table.split} of {table.dataset}"
    else:
        text = f"rows of {path.name}"
        revision = "missing"  # or unreadable: reading the rows says so
        with suppress(OSError):
            if path.is_file():
                revision = f"sha256:{sha256(path)}"

    def load(mirror: Path | None) -> list[Prompt]:
        if split:
            rows = list(hub.iterate_rows(split.rows(mirror), split.repository))
            return _prompts(name, table, rows, split.repository)
        try:
            rows = read_rows(path)
        except DataError as fault:
            raise DataError(f"{here} file: {fault}") from None
        return _prompts(name, table, rows, str(path))

    files = (split,) if split else ()
    guide = _rubric(here, table)
    return Benchmark(
        name, kind, text, load, revision, judge, files, category_guide=guide
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
        raise DataError(f"{here} rubric: name a Markdown file (.md): {path} is not one")
    return path


def _prompts(
    name: str, table: BenchmarkTable, rows: Sequence[Mapping[str, Any]], where: str
) -> list[Prompt]:
    _require_columns(name, table, header(rows), where)
    id_column = table.id
    # A column id with repeated or long cells holds something else, such as a user's number.
    if id_column is None and _identifies([row.get("id") for row in rows]):
        id_column = "id"
    judged = table.judge_sees or "judge_sees"
    prompts = []
    numbers: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        place = f"{where}: row {number}"
        row_id = _text(row.get(id_column)) if id_column else f"{name}-{number}"
        if not row_id:
            raise DataError(f"{place} has no {id_column}")
        first = numbers.setdefault(row_id, number)
        if first != number:
            raise DataError(
                f"{where}: rows {first} and {number}: make each {id_column} unique: both have "
                f"{sanitize(row_id, 60)}"
            )
        groups = {}
        for kind, column in table.columns.items():
            if _text(row.get(column)):
                groups[kind] = _text(row[column])
        shown: tuple[Message, ...] = ()
        if _text(row.get(judged)):
            shown = _messages(row[judged], f"{place}: {judged}")
        prompt = Prompt(
            row_id,
            _messages(row.get(table.prompt), f"{place}: {table.prompt}"),
            groups,
            cluster=_text(row.get(table.cluster)) if table.cluster else "",
            judge_sees=shown,
        )
        if table.options is not None:
            prompt = answer_key.add_options(
                prompt, row, table.options, table.key, place
            )
        prompts.append(prompt)
    if table.cluster:
        return prompts
    if id_column is None and table.file:
        _require_distinct(prompts, where)
    return _cluster_repeats(prompts)


def _require_distinct(prompts: Sequence[Prompt], where: str) -> None:
    """Refuse rows that repeat a prompt, which is usually a mistake.

    Rows with ids of their own may repeat, and rows of data sets, which the user cannot edit.
    """
    first: dict[object, int] = {}
    for number, prompt in enumerate(prompts, 1):
        earlier = first.setdefault((prompt.messages, prompt.judge_sees), number)
        if earlier != number:
            raise DataError(
                f"{where}: rows {earlier} and {number}: remove one, or add a column id with a "
                "different id in each row: both have the same prompt"
            )


def _cluster_repeats(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Put prompts with the same text into one cluster, as a repeated prompt shows nothing new."""
    often = Counter(prompt.messages for prompt in prompts)
    first: dict[object, str] = {}
    together = []
    for prompt in prompts:
        cluster = ""
        if often[prompt.messages] > 1:
            cluster = first.setdefault(prompt.messages, prompt.id)
        together.append(replace(prompt, cluster=cluster))
    return together


def _text(value: Any) -> str:
    """A cell as text; empty if the cell is."""
    return "" if value is None else str(value)


def _require_columns(
    name: str, table: BenchmarkTable, columns: Sequence[str], where: str
) -> None:
    """Raise DataError unless the data has every column named in the table."""
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
    """Read a user's text, a list of messages, or texts by user and assistant in turn.

    Errors do not quote it: it may be private.
    """
    turns = value
    if isinstance(value, str):
        turns = _conversation(value) or ([value] if value.strip() else [])
    if not turns or not isinstance(turns, list):
        raise DataError(
            f"{place}: write a text or a list of messages, or remove the row: there is none"
        )
    messages = []
    for number, turn in enumerate(turns):
        role: Any = _TURNS[number % 2]
        text = turn
        if isinstance(turn, Mapping):
            role, text = turn.get("role"), turn.get("content")
        if role not in get_args(Role) or not isinstance(text, str):
            raise DataError(
                f"{place}: message {number + 1}: write {{role, content}}, with a text and one of "
                f"the roles {', '.join(get_args(Role))}; images and files are not supported"
            )
        messages.append(Message(role, text))
    if messages[-1].role != "user":
        raise DataError(
            f"{place}: the last turn must be the user's, not {messages[-1].role}'s"
        )
    return tuple(messages)


def _conversation(text: str) -> list[Any] | None:
    """The messages in a cell with JSON; None for other content."""
    # A prompt may be JSON itself, for the model to read: only lists of messages are read here.
    if not text.lstrip().startswith("[{"):
        return None
    try:
        turns: list[Any] = parse_json(text)
    except ValueError:
        return None
    return turns if "role" in turns[0] else None
