"""Log-probabilities in recordings: means over an answer's tokens, never totals.

Answers to a prompt are weighted by them. A total would give all the weight to the shortest answer,
which is the refusal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.records import Completion
from refusal_checks.core.text import brief

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "logprob": ("mean_logprob",),
    "total_logprob": ("total_logprob", "sum_logprob", "cumulative_logprob"),
    "tokens": ("tokens", "completion_tokens", "num_tokens"),
}
"""Usual column names by field; a total is divided by the number of tokens."""

_UNCLEAR = ("logprob", "logprobs", "log_prob")
"""Columns that may hold means or totals: nothing in them says which."""

_LEAST = -math.log(1e7)
"""No sampled answer is less probable per token than guessing among ten million tokens."""


def require_clear(
    path: Path,
    known: Sequence[str],
    names: Mapping[str, str],
    answers: Iterable[Sequence[Completion]],
) -> None:
    """Refuse log-probabilities of unknown meaning where they would weigh a prompt's answers.

    Args:
        known: the file's columns.
        names: those that were found, by field.
        answers: to each prompt.

    Raises:
        DataError: nothing says whether a column holds means or totals, or totals lack the number
            of tokens.
    """
    if "logprob" in names or all(len(several) == 1 for several in answers):
        return
    total = names.get("total_logprob")
    if total and "tokens" not in names:
        raise DataError(
            f"{path}: {total} holds totals, which weigh short answers too much: add a column with "
            "the number of tokens (--replay-columns tokens=COLUMN), or one with mean_logprob"
        )
    unclear = next((name for name in _UNCLEAR if name in known), None)
    if unclear and not total:
        raise DataError(
            f"{path}: say what {unclear} holds: --replay-columns logprob={unclear} for means over "
            f"an answer's tokens, or total_logprob={unclear},tokens=COLUMN for totals"
        )


def mean(cells: Mapping[str, Any], names: Mapping[str, str], where: str) -> float | None:
    """The mean log-probability of an answer's tokens; None if it is unknown.

    Args:
        cells: by field; names: the fields' columns.
        where: file and row, for messages.

    Raises:
        DataError: a cell is not a number, or no mean can have this value.
    """
    found = {
        name: _number(cells[name], f"{where}: {names[name]}") for name in COLUMNS if name in names
    }
    value, total, tokens = (found.get(name) for name in COLUMNS)
    field = "logprob"
    if value is None and total is not None and tokens:
        field, value = "total_logprob", total / tokens
    if value is None:
        return None
    if not _LEAST <= value <= 1e-6:
        raise DataError(
            f"{where}: {names[field]} = {brief(cells[field])} is no mean log-probability of "
            f"tokens, which lies between {_LEAST:.1f} and 0: totals belong in a column "
            "total_logprob, beside one with the number of tokens"
        )
    return min(0.0, value)


def _number(cell: Any, where: str) -> float | None:
    try:
        value = float(cell) if cell not in (None, "") else None
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if value is not None and not math.isfinite(value):
        raise DataError(f"{where} = {brief(cell)}: not a finite number")
    return value
