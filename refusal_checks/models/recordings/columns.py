"""Find a recording's columns, and read the answer in one of its rows.

Columns are found by their usual names (``COLUMNS``) or as ``recording.columns`` maps them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.records import Completion
from refusal_checks.core.text import describe_value, join_names, replace_surrogates
from refusal_checks.io.data_files import header, require_in_data
from refusal_checks.io.strict_json import parse_json
from refusal_checks.models.client.chat_replies import (
    add_reasoning,
    add_tool_calls,
    read_reason,
)
from refusal_checks.models.client.reasoning import split_reasoning
from refusal_checks.models.model_names import Replay

Row = Mapping[str, Any]
"""A prompt and an answer, by column."""

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

LEAST_LOGPROB = -math.log(1e7)
"""No sampled answer is less probable per token than guessing among ten million tokens, so a number
below is a total."""


def find_columns(
    path: Path, rows: Sequence[Row], given: Mapping[str, str]
) -> dict[str, str]:
    """The column of each field; ``given`` has the user's own.

    Raises DataError unless there are answers, and prompts or ids.
    """
    names = header(rows)
    for name, column in given.items():
        option = f"recording.columns {name}={column}"
        require_known(name, COLUMNS, option, "field", DataError)
        require_in_data(column, names, f"{path}: {option}")
    columns = {}
    for name, usual in COLUMNS.items():
        for column in [given[name]] if name in given else usual:
            if column in names:
                columns[name] = column
                break
    if "completion" not in columns or not {"id", "prompt"} & columns.keys():
        raise DataError(
            f"{path}: needs a column with answers ({', '.join(COLUMNS['completion'])}) and one "
            f"with prompts or ids ({', '.join(COLUMNS['prompt'])}, id); it has "
            f"{join_names(names)}. Name them with --set "
            '\'recording.columns={completion="COLUMN",prompt="COLUMN"}\', or in the first line '
            "of the file if it is CSV"
        )
    return columns


def format_value(value: Any) -> str:
    """Write a value as people do: ``true`` and ``false``, and nothing for None."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def read_key(where: str, row: Row, column: str | None) -> str:
    """A row's id or prompt, from its column; empty if there is no such column."""
    if column is None:
        return ""
    value = row.get(column)
    if value is None or isinstance(value, (list, Mapping)):
        raise DataError(f"{where}: {column}: write a text in each row")
    return replace_surrogates(str(value)).strip()


def read_answer(
    where: str,
    row: Row,
    columns: Mapping[str, str],
    model: Replay,
    meanings: Mapping[str, str],
) -> Completion:
    """A row's answer: a text, a chat message as OpenAI's servers send it, or None for none.

    Args:
        meanings: of labels, by their text in lower case.
    """
    column = columns["completion"]
    # A row of JSONL may lack the key: no answer, or a mistake? It has to say which.
    if column not in row:
        raise DataError(
            f"{where}: {column}: write an answer, or null if there was none"
        )
    answer = row[column]
    message = answer if isinstance(answer, Mapping) else {"content": answer}
    beside = {name: row.get(column) for name, column in columns.items()}
    if beside.get("tool_calls"):
        calls = _tool_calls(f"{where}: {columns['tool_calls']}", beside["tool_calls"])
        message = {**message, "tool_calls": calls}
    try:
        text, reasoning = split_reasoning(message, model.reasoning_end)
        text = replace_surrogates(text)
    except (TypeError, KeyError, AttributeError):
        raise DataError(
            f"{where}: {column}: write a text, or a message with content"
        ) from None
    label = beside.get("label")
    completion = Completion(
        text,
        # Most tables have none, and hold whole answers.
        finish_reason=read_reason(beside.get("finish_reason") or "stop"),
        mean_logprob=_mean_logprob(where, columns, beside.get("logprob")),
        label=None if label is None else _label(format_value(label), meanings),
        reasoning=reasoning,
    )
    completion = add_tool_calls(completion, message)
    if model.judge_reasoning:
        return add_reasoning(completion, message, model.reasoning_end)
    return completion


def _tool_calls(where: str, value: Any) -> list[Any]:
    """The tool calls beside an answer: a list, or a list as JSON in a file without lists."""
    calls = value
    if isinstance(value, str):  # CSV has no lists
        try:
            calls = parse_json(value)
        except ValueError as fault:
            raise DataError(f"{where} is not JSON: {fault}") from None
    if not isinstance(calls, list):
        raise DataError(f"{where} is not a list of tool calls")
    return calls


def _label(text: str, meanings: Mapping[str, str]) -> str:
    return replace_surrogates(meanings.get(text.strip().lower(), text))


def _mean_logprob(where: str, columns: Mapping[str, str], value: Any) -> float | None:
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    # Some tools write a total, or a probability; a mean that is rounded may pass 0 by a hair.
    if not LEAST_LOGPROB <= number <= 1e-6:
        raise DataError(
            f"{where}: {columns['logprob']} = {describe_value(value)}: write the mean "
            f"log-probability of the answer's tokens, which lies between {LEAST_LOGPROB:.1f} and 0"
        )
    return min(0.0, number)
