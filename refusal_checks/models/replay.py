"""Recorded answers: a CSV or JSONL file in place of a candidate.

Columns are found by their usual names (``COLUMNS``) or as ``--replay-columns`` maps them. One row
is one answer; several rows of one prompt are its samples, in file order. Rows are matched to
prompts by id if the file has the benchmark's ids, else by the prompt's text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.core.csv_jsonl import find_columns, header, read_rows
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.text import storable

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "prompt_id"),
    "prompt": ("prompt", "question", "instruction", "request"),
    "completion": ("completion", "response", "answer", "output"),
    "label": ("label", "human_label", "final_label"),
    "logprob": ("mean_logprob", "logprob"),
}
"""Usual column names of each field; the first that the file has is taken."""


def columns(text: str, option: str = "--replay-columns") -> dict[str, str]:
    """Parse an option's value: column by field.

    Raises:
        DataError: it is not of the form FIELD=COLUMN,FIELD=COLUMN.
    """
    pairs = [part.partition("=") for part in text.split(",") if part]
    for name, equals, column in pairs:
        if not (name and equals and column):
            raise DataError(f"{option} {text}: write FIELD=COLUMN,FIELD=COLUMN")
    return {name.strip(): column.strip() for name, _, column in pairs}


@dataclass(frozen=True)
class Recording:
    """The recorded answers of one file.

    Attributes:
        by_id: answers by recorded prompt id; empty if the file has no ids.
        by_text: answers by recorded prompt text; empty if the file has no prompts.
        texts: recorded prompt text by recorded id.
    """

    path: Path
    by_id: Mapping[str, tuple[Completion, ...]]
    by_text: Mapping[str, tuple[Completion, ...]]
    texts: Mapping[str, str]

    def answers(self, prompt: Prompt) -> tuple[Completion, ...]:
        """The answers recorded for a prompt; empty if there are none."""
        return self.by_id.get(prompt.id) or self.by_text.get(prompt.request.strip(), ())

    def require(self, benchmark: str, prompts: Sequence[Prompt]) -> None:
        """Raise DataError unless every prompt has an answer."""
        missing = [prompt for prompt in prompts if not self.answers(prompt)]
        if missing:
            raise DataError(
                f"{self.path}: no answers for {len(missing)} of the {len(prompts)} prompts of "
                f"{benchmark}; the first is {missing[0].id}"
            )

    def reworded(self, prompts: Iterable[Prompt]) -> list[str]:
        """Ids of prompts that were matched by id although their recorded text is different."""
        return [
            prompt.id
            for prompt in prompts
            if self.texts.get(prompt.id, prompt.request).strip() != prompt.request.strip()
        ]


def read(path: Path, columns: Mapping[str, str] | None = None) -> Recording:
    """Read a file of recorded answers.

    Args:
        columns: column by field (a key of ``COLUMNS``), for columns with other names.

    Raises:
        DataError: the file is missing, empty, malformed, or lacks a needed column.
    """
    rows = read_rows(path)
    names = _columns(path, header(rows), columns or {})
    by_id: dict[str, list[Completion]] = {}
    by_text: dict[str, list[Completion]] = {}
    texts: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        answer = _completion(path, number, row, names)
        key, text = (_key(path, number, row, names.get(name)) for name in ("id", "prompt"))
        if key is not None:
            by_id.setdefault(key, []).append(answer)
        if text is not None:
            by_text.setdefault(text.strip(), []).append(answer)
        if key is not None and text is not None:
            texts.setdefault(key, text)
    return Recording(path, _frozen(by_id), _frozen(by_text), texts)


class ReplayCandidate:
    """Recorded answers, as many per prompt as the file has."""

    max_tokens: int | None = None

    def __init__(self, name: str, recording: Recording) -> None:
        self.name = name
        self._recording = recording

    def keys(self, prompt: Prompt) -> Sequence[str]:
        """See ``Candidate.keys``."""
        return [f"{prompt.id}-{sample}" for sample in range(len(self._recording.answers(prompt)))]

    def known(self, prompts: Sequence[Prompt], store: Store) -> Mapping[str, Completion]:
        """See ``Candidate.known``: all that are recorded."""
        return {
            key: answer
            for prompt in prompts
            for key, answer in zip(self.keys(prompt), self._recording.answers(prompt), strict=True)
        }

    async def answer(self, prompt: Prompt, first: int, count: int) -> Sequence[Completion]:
        """See ``Candidate.answer``."""
        return self._recording.answers(prompt)[first : first + count]


def _key(path: Path, number: int, row: Mapping[str, Any], column: str | None) -> str | None:
    """What a row is matched by; None if the file has no such column."""
    if column is None:
        return None
    if row.get(column) is None:
        raise DataError(f"{path}: row {number}: no {column}")
    return str(row[column])


def _frozen(lists: Mapping[str, list[Completion]]) -> dict[str, tuple[Completion, ...]]:
    return {key: tuple(answers) for key, answers in lists.items()}


def _columns(path: Path, known: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    found = find_columns(path, known, COLUMNS, given, "--replay-columns")
    if "completion" not in found or not {"id", "prompt"} & set(found):
        raise DataError(
            f"{path}: needs a column with answers ({', '.join(COLUMNS['completion'])}) and one "
            f"with prompts or ids ({', '.join(COLUMNS['prompt'])}, id); it has "
            f"{', '.join(known)}. "
            "Name them with --replay-columns completion=COLUMN,prompt=COLUMN"
        )
    return found


def _completion(
    path: Path, line: int, row: Mapping[str, Any], names: Mapping[str, str]
) -> Completion:
    text, label, logprob = (
        row.get(names[name]) if name in names else None
        for name in ("completion", "label", "logprob")
    )
    if not isinstance(text, str):
        raise DataError(f"{path}: row {line}: {names['completion']} is not text")
    try:
        value = float(logprob) if logprob not in (None, "") else None
    except (TypeError, ValueError):
        value = math.nan
    if value is not None and not math.isfinite(value):
        raise DataError(
            f"{path}: row {line}: {names['logprob']} = {logprob!r}: not a finite number"
        )
    return Completion(
        storable(text), mean_logprob=value, label=None if label is None else storable(str(label))
    )
