"""Find a recording's columns, and read the answers in one of its rows.

Columns are found by their usual names (``COLUMNS``) or as ``recording.columns`` maps them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import find_columns
from refusal_checks.core.errors import DataError
from refusal_checks.core.records import Completion
from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import brief, listed, storable
from refusal_checks.models.client.answers import calling, read_reason, reasoned
from refusal_checks.models.client.reasoning import split_reasoning
from refusal_checks.models.recordings.rows import Row

LOGPROB_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "logprob": ("mean_logprob",),
    "total_logprob": ("total_logprob", "sum_logprob", "cumulative_logprob"),
    "tokens": ("tokens", "completion_tokens", "num_tokens"),
}
"""Usual column names by field; a total is divided by the number of tokens."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "prompt_id"),
    "prompt": ("prompt", "question", "instruction", "request"),
    "completion": ("completion", "response", "answer", "output"),
    "label": ("label", "human_label", "final_label"),
    "finish_reason": ("finish_reason",),
    "tool_calls": ("tool_calls",),
    **LOGPROB_COLUMNS,
}
"""Usual column names of each field; the first that the file has is taken."""

PARALLEL = ("label", "finish_reason", "tool_calls", *LOGPROB_COLUMNS)
"""Fields that may be lists beside a list of answers."""

WITH_NULL = (".json", ".jsonl", ".ndjson", ".eval", ".parquet")
"""Files that have a value for a missing answer."""

LEAST_LOGPROB = -math.log(1e7)
"""No sampled answer is less probable per token than guessing among ten million tokens."""


@dataclass(frozen=True)
class ReplayOptions:
    """How a file of recorded answers is read: the table ``recording`` of a run file.

    Attributes:
        columns: column by field (a key of ``COLUMNS``), for columns with other names; a dot leads
            into nested values, as in ``doc.prompt``.
        labels: meaning of labels, by their text in lower case; other labels stay as they are.
        labelled_by: who gave the labels: ``people``, a model's name, or empty if unknown.
        only: read only rows with these values, by column.
        partial: leave out prompts without an answer, which are otherwise an error.
        reasoning_end: the text that ends the reasoning in an answer.
        judge_reasoning: True if the reasoning is judged as a part of the answer.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    labelled_by: str = ""
    only: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False
    reasoning_end: str = ""
    judge_reasoning: bool = False


def columns_of(
    path: Path, rows: Iterable[Row], names: Sequence[str], given: Mapping[str, str]
) -> dict[str, str]:
    """The column of each field; ``names`` are the columns of the file, ``given`` the user's own.

    Raises DataError unless there are answers, and prompts or ids.
    """
    nested = []
    for column in given.values():
        if column in names:
            continue
        if any(cell(row, column) is not None for row in rows):
            nested.append(column)
    columns = find_columns(path, [*names, *nested], COLUMNS, given, "recording.columns")
    if "completion" not in columns or not {"id", "prompt"} & columns.keys():
        raise DataError(
            f"{path}: needs a column with answers ({', '.join(COLUMNS['completion'])}) and one "
            f"with prompts or ids ({', '.join(COLUMNS['prompt'])}, id); it has "
            f"{listed(names)}. Name them with --set "
            '\'recording.columns={completion="COLUMN",prompt="COLUMN"}\''
        )
    return columns


def cell(row: Mapping[str, Any], column: str) -> Any:
    """A row's value in a column; ``doc.prompt`` and ``resps.0`` look into nested values."""
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


def text_of(value: Any) -> str:
    """Write a value as people do: booleans as ``true`` and ``false``, None as an empty text."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def key_of(where: str, row: Row, column: str) -> str:
    """A row's id or prompt, from its column."""
    value = cell(row, column)
    if value is None:
        raise DataError(f"{where}: no {column}")
    if isinstance(value, (list, Mapping)):
        raise DataError(f"{where}: {column} is not text")
    return storable(str(value))


def answers_in(
    where: str, row: Row, columns: Mapping[str, str], how: ReplayOptions, suffix: str
) -> Iterator[Completion]:
    """A row's answers: one, or one per item of a list; other columns may then hold lists too.

    An answer is a text, or a chat message (``_message``).
    """
    cells = {name: cell(row, column) for name, column in columns.items()}
    column, value = columns["completion"], cells["completion"]
    is_list = isinstance(value, list)
    answers = value if is_list else [value]

    may_lack = suffix in WITH_NULL and (column in row or "." in column)
    if value is None and not may_lack:
        raise DataError(f"{where}: {column} is not text")

    for index, answer in enumerate(answers):
        own = dict(cells)
        if is_list:
            for name in PARALLEL:
                own[name] = _item(where, columns, own, name, index, len(answers))
        message = _message(where, column, answer)
        if own.get("tool_calls"):
            calls = _tool_calls(where, columns["tool_calls"], own["tool_calls"])
            message = {**message, "tool_calls": calls}
        try:
            text, reasoning = split_reasoning(message, how.reasoning_end)
        except (TypeError, KeyError, AttributeError):
            raise DataError(f"{where}: {column} is not text") from None
        read = Completion(
            storable(text),
            finish_reason=read_reason(own.get("finish_reason") or "stop"),
            mean_logprob=_mean_logprob(own, columns, where),
            label=_label(own.get("label"), how),
            reasoning=reasoning,
        )
        read = calling(read, message)
        if how.judge_reasoning:
            read = reasoned(read, message, how.reasoning_end)
        yield read


def _message(where: str, column: str, answer: Any) -> Mapping[str, Any]:
    """An answer as a chat message: a text, or a message as OpenAI's servers send it."""
    if answer is None or isinstance(answer, str):
        return {"content": answer}
    if isinstance(answer, Mapping) and answer.keys() & {"content", "tool_calls"}:
        return answer
    raise DataError(f"{where}: {column} is not text")


def _tool_calls(where: str, column: str, value: Any) -> list[Any]:
    """The tool calls beside an answer: a list, or a list as JSON in a file without lists."""
    calls = value
    if isinstance(value, str):
        try:
            calls = parse_json(value)
        except ValueError as fault:
            raise DataError(f"{where}: {column} is not JSON: {fault}") from None
    if not isinstance(calls, list):
        raise DataError(f"{where}: {column} is not a list of tool calls")
    return calls


def _item(
    where: str,
    columns: Mapping[str, str],
    cells: Mapping[str, Any],
    name: str,
    index: int,
    answers: int,
) -> Any:
    """A column's value for one answer of a list; a value that is not a list holds for all."""
    value = cells.get(name)
    if not isinstance(value, list):
        return value
    if len(value) != answers:
        raise DataError(
            f"{where}: {columns[name]} has {len(value)} items for {answers} answers"
        )
    return value[index]


def _label(value: Any, how: ReplayOptions) -> str | None:
    if value is None:
        return None
    text = text_of(value)
    return storable(how.labels.get(text.strip().lower(), text))


def _mean_logprob(
    cells: Mapping[str, Any], columns: Mapping[str, str], where: str
) -> float | None:
    numbers: dict[str, float | None] = {}
    for name in LOGPROB_COLUMNS.keys() & columns.keys():
        numbers[name] = _number(where, columns[name], cells[name])

    field, value = "logprob", numbers.get("logprob")
    total, tokens = numbers.get("total_logprob"), numbers.get("tokens")
    if value is None and total is not None and tokens:
        field, value = "total_logprob", total / tokens
    if value is None:
        return None
    if not LEAST_LOGPROB <= value <= 1e-6:
        raise DataError(
            f"{where}: {columns[field]} = {brief(cells[field])} is no mean log-probability of "
            f"tokens, which lies between {LEAST_LOGPROB:.1f} and 0: totals belong in a column "
            "total_logprob, beside one with the number of tokens"
        )
    return min(0.0, value)


def _number(where: str, column: str, value: Any) -> float | None:
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where}: {column} = {brief(value)}: not a finite number")
    return number


def require_clear_logprobs(
    path: Path,
    names: Sequence[str],
    columns: Mapping[str, str],
    answers: Iterable[Sequence[Completion]],
) -> None:
    """Refuse log-probabilities of unclear meaning where they would weight a prompt's answers.

    A total instead of a mean would give nearly all weight to the shortest answer, usually the
    refusal.
    """
    if "logprob" in columns or all(len(several) == 1 for several in answers):
        return
    total = columns.get("total_logprob")
    if total and "tokens" not in columns:
        raise DataError(
            f"{path}: {total} holds totals, which weigh short answers too much: add a column with "
            "the number of tokens (--set recording.columns.tokens=COLUMN), or one with mean_logprob"
        )
    # Nothing in such a column says whether it holds means or totals.
    unclear = [name for name in ("logprob", "logprobs", "log_prob") if name in names]
    if unclear and not total:
        raise DataError(
            f"{path}: say what {unclear[0]} holds: "
            f"--set recording.columns.logprob={unclear[0]} for "
            f"means over an answer's tokens, or --set recording.columns.total_logprob={unclear[0]} "
            "and --set recording.columns.tokens=COLUMN for totals"
        )
