"""Find a recording's columns, and read the answers in one of its rows.

Columns are found by their usual names (``COLUMNS``) or as ``recording.columns`` maps them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import find_columns, header
from refusal_checks.core.errors import DataError
from refusal_checks.core.records import Completion
from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import brief, listed, storable
from refusal_checks.models.client.answers import calling, read_reason, reasoned
from refusal_checks.models.client.reasoning import split_reasoning

Row = Mapping[str, Any]
"""A prompt and its answers, by column."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "prompt_id"),
    "prompt": ("prompt", "question", "instruction", "request"),
    "completion": ("completion", "response", "answer", "output"),
    "label": ("label", "human_label", "final_label"),
    "finish_reason": ("finish_reason",),
    "tool_calls": ("tool_calls",),
    "logprob": ("mean_logprob",),
}
"""Usual column names of each field; the first that the file has is taken."""

BESIDE = ("label", "finish_reason", "tool_calls", "logprob")
"""Fields that may be lists beside a list of answers."""

LEAST_LOGPROB = -math.log(1e7)
"""No sampled answer is less probable per token than guessing among ten million tokens, so a number
below is a total."""


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
    path: Path, rows: Sequence[Row], given: Mapping[str, str]
) -> dict[str, str]:
    """The column of each field; ``given`` has the user's own.

    Raises DataError unless there are answers, and prompts or ids.
    """
    names = header(rows)
    nested = []
    for column in given.values():
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


def cell(row: Row, column: str) -> Any:
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


def key_of(where: str, row: Row, column: str | None) -> str:
    """A row's id or prompt, from its column; empty if there is no such column."""
    if column is None:
        return ""
    value = cell(row, column)
    if value is None or isinstance(value, (list, Mapping)):
        raise DataError(f"{where}: {column}: write a text in each row")
    return storable(str(value)).strip()


def answers_in(
    where: str, row: Row, columns: Mapping[str, str], how: ReplayOptions
) -> list[Completion]:
    """A row's answers: one, or one per item of a list; other columns may then hold lists too.

    An answer is a text, a chat message as OpenAI's servers send it, or None if there was none.
    """
    column = columns["completion"]
    value = cell(row, column)
    if column not in row and "." not in column:
        raise DataError(
            f"{where}: {column}: write an answer, or null if there was none"
        )
    answers = value if isinstance(value, list) else [value]
    beside = {}
    for name in BESIDE:
        given = cell(row, columns[name]) if name in columns else None
        if not isinstance(value, list) or not isinstance(given, list):
            given = [given] * len(answers)
        if len(given) != len(answers):
            raise DataError(
                f"{where}: {columns[name]} has {len(given)} items for {len(answers)} answers"
            )
        beside[name] = given

    read = []
    for index, answer in enumerate(answers):
        own = {name: values[index] for name, values in beside.items()}
        message = answer if isinstance(answer, Mapping) else {"content": answer}
        if own["tool_calls"]:
            calls = _tool_calls(f"{where}: {columns['tool_calls']}", own["tool_calls"])
            message = {**message, "tool_calls": calls}
        try:
            text, reasoning = split_reasoning(message, how.reasoning_end)
            text = storable(text)
        except (TypeError, KeyError, AttributeError):
            raise DataError(
                f"{where}: {column}: write a text, or a message with content"
            ) from None
        completion = Completion(
            text,
            finish_reason=read_reason(own["finish_reason"] or "stop"),
            mean_logprob=_mean_logprob(where, columns, own["logprob"]),
            label=_label(own["label"], how.labels),
            reasoning=reasoning,
        )
        completion = calling(completion, message)
        if how.judge_reasoning:
            completion = reasoned(completion, message, how.reasoning_end)
        read.append(completion)
    return read


def _tool_calls(where: str, value: Any) -> list[Any]:
    """The tool calls beside an answer: a list, or a list as JSON in a file without lists."""
    calls = value
    if isinstance(value, str):
        try:
            calls = parse_json(value)
        except ValueError as fault:
            raise DataError(f"{where} is not JSON: {fault}") from None
    if not isinstance(calls, list):
        raise DataError(f"{where} is not a list of tool calls")
    return calls


def _label(value: Any, meanings: Mapping[str, str]) -> str | None:
    if value is None:
        return None
    text = text_of(value)
    return storable(meanings.get(text.strip().lower(), text))


def _mean_logprob(where: str, columns: Mapping[str, str], value: Any) -> float | None:
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not LEAST_LOGPROB <= number <= 1e-6:
        raise DataError(
            f"{where}: {columns['logprob']} = {brief(value)}: write the mean log-probability of "
            f"the answer's tokens, which lies between {LEAST_LOGPROB:.1f} and 0"
        )
    return min(0.0, number)
