"""Recorded answers: a file in place of a candidate.

Files are tables (CSV, JSON, JSONL) or what other tools write (``recordings``). Columns are found
by their usual names (``COLUMNS``) or as ``--replay-columns`` maps them. A row is one answer, or a
list of them; all answers to one prompt are its samples, in file order. Rows are matched to prompts
by id if the file has the benchmark's ids, else by the prompt's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.core.csv_jsonl import find_columns, header
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.text import listed, storable
from refusal_checks.models import recorded_logprobs, recordings
from refusal_checks.models.recordings.document import NEVER_ASKED

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "prompt_id"),
    "prompt": ("prompt", "question", "instruction", "request"),
    "completion": ("completion", "response", "answer", "output"),
    "label": ("label", "human_label", "final_label"),
    **recorded_logprobs.COLUMNS,
}
"""Usual column names of each field; the first that the file has is taken."""

_WITH_NULL = (".json", ".jsonl", ".ndjson", ".eval")


def pairs(text: str, option: str, form: str = "FIELD=COLUMN") -> dict[str, str]:
    """Parse an option's value.

    Args:
        form: a pair of its, in words.

    Raises:
        DataError: it is not of the form FIELD=COLUMN,FIELD=COLUMN.
    """
    found = [part.partition("=") for part in text.split(",") if part]
    for name, equals, value in found:
        if not (name.strip() and equals and value.strip()):
            raise DataError(f"{option} {text}: write {form},{form}")
    return {name.strip(): value.strip() for name, _, value in found}


@dataclass(frozen=True)
class Reading:
    """How a file of recorded answers is read.

    Attributes:
        columns: column by field (a key of ``COLUMNS``), for columns with other names; a dot leads
            into nested values, as in ``doc.prompt``.
        labels: what labels mean, by their text in lower case; any other label stays as it is.
        only: the rows to read have these values, by column.
        partial: prompts without an answer are left out; otherwise they are an error.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False


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
                f"{benchmark}; the first is {missing[0].id}. Record the rest, or gate what there "
                "is with --replay-partial"
            )

    def reworded(self, prompts: Iterable[Prompt]) -> list[str]:
        """Ids of prompts that were matched by id although their recorded text is different."""
        return [
            prompt.id
            for prompt in prompts
            if self.texts.get(prompt.id, prompt.request).strip() != prompt.request.strip()
        ]


def read(path: Path, how: Reading | None = None) -> Recording:
    """Read a file of recorded answers.

    Raises:
        DataError: the file is missing, empty, malformed, or lacks a needed column.
    """
    how = how or Reading()
    rows = recordings.read(path, how.only)
    names = _columns(path, rows, how.columns)
    by_id: dict[str, list[Completion]] = {}
    by_text: dict[str, list[Completion]] = {}
    texts: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path}: row {number}"
        _require_answer(path, where, row, names["completion"])
        answers = list(_completions(where, row, names, how.labels))
        key, text = (_key(where, row, names.get(name)) for name in ("id", "prompt"))
        if key is not None:
            by_id.setdefault(key, []).extend(answers)
        if text is not None:
            by_text.setdefault(text.strip(), []).extend(answers)
        if key is not None and text is not None:
            texts.setdefault(key, text)
    recorded_logprobs.require_clear(path, header(rows), names, (*by_id.values(), *by_text.values()))
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


def _key(where: str, row: Mapping[str, Any], column: str | None) -> str | None:
    """What a row is matched by; None if the file has no such column."""
    if column is None:
        return None
    value = recordings.cell(row, column)
    if value is None or isinstance(value, (list, Mapping)):
        raise DataError(f"{where}: {'no ' + column if value is None else column + ' is not text'}")
    return storable(str(value))


def _frozen(lists: Mapping[str, list[Completion]]) -> dict[str, tuple[Completion, ...]]:
    return {key: tuple(answers) for key, answers in lists.items()}


def _columns(
    path: Path, rows: Sequence[Mapping[str, Any]], given: Mapping[str, str]
) -> dict[str, str]:
    known = header(rows)
    nested = [
        column
        for column in given.values()
        if column not in known and any(recordings.cell(row, column) is not None for row in rows)
    ]
    found = find_columns(path, [*known, *nested], COLUMNS, given, "--replay-columns")
    if "completion" not in found or not {"id", "prompt"} & set(found):
        raise DataError(
            f"{path}: needs a column with answers ({', '.join(COLUMNS['completion'])}) and one "
            f"with prompts or ids ({', '.join(COLUMNS['prompt'])}, id); it has "
            f"{listed(known)}. "
            "Name them with --replay-columns completion=COLUMN,prompt=COLUMN"
        )
    return found


def _completions(
    where: str, row: Mapping[str, Any], names: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[Completion]:
    """A row's answers: one, or one per item of a list, which other columns then have, too."""
    cells = {name: recordings.cell(row, column) for name, column in names.items()}
    several, column = isinstance(cells["completion"], list), names["completion"]
    answers = cells["completion"] if several else [cells["completion"]]
    for number, answer in enumerate(answers):
        if answer is not None and not isinstance(answer, str):
            raise DataError(f"{where}: {column} is not text")
        own = {
            name: _item(cells[name], number, len(answers), f"{where}: {names[name]}")
            if several
            else cells[name]
            for name in ("label", *recorded_logprobs.COLUMNS)
            if name in names
        }
        label = own.get("label")
        said = recordings.text(label)
        yield Completion(
            storable(answer or ""),
            mean_logprob=recorded_logprobs.mean(own, names, where),
            label=storable(labels.get(said.strip().lower(), said)) if label is not None else None,
            never_asked=row.get(NEVER_ASKED) is True,
        )


def _require_answer(path: Path, where: str, row: Mapping[str, Any], column: str) -> None:
    """Check that a row has an answer, or says that there is none, as only JSON can."""
    says_none = path.suffix in _WITH_NULL and (column in row or "." in column)
    if recordings.cell(row, column) is None and not says_none:
        raise DataError(f"{where}: {column} is not text")


def _item(value: Any, number: int, count: int, where: str) -> Any:
    """One answer's part of a cell."""
    if not isinstance(value, list):
        return value
    if len(value) != count:
        raise DataError(f"{where} has {len(value)} items for {count} answers")
    return value[number]
