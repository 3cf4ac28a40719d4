"""Read a file of recorded answers in place of a candidate.

Files are tables (CSV, JSON, JSONL, Parquet) or Inspect's logs (``inspect_logs``). A row is one
answer, or a list of them; all answers to one prompt are its samples, in file order. Rows are
matched to prompts by id if the file has the benchmark's ids, else by the prompt's text (of a
question, without its options). An id does not match if the row holds another prompt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from refusal_checks.core.data_files import (
    header,
    objects,
    read_json,
    require_in_data,
    rows_in,
)
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.text import clean, count
from refusal_checks.models.recordings import inspect_logs
from refusal_checks.models.recordings.columns import (
    ReplayOptions,
    answers_in,
    cell,
    columns_of,
    key_of,
    require_clear_logprobs,
    text_of,
)
from refusal_checks.models.recordings.recording import Recording, letters_of
from refusal_checks.models.recordings.rows import Row, Rows


def read(
    path: Path,
    how: ReplayOptions | None = None,
    prompts: Iterable[Prompt] | None = None,
) -> Recording:
    """Read a file of recorded answers, row by row; with ``prompts``, only the answers to these."""
    how = how or ReplayOptions()
    rows, names = recorded_rows(path, how.only, how.partial)
    columns = columns_of(path, rows, names, how.columns)
    matching = None if prompts is None else _Matching(prompts)
    by_id: dict[str, tuple[Completion, ...]] = {}
    by_text: dict[str, tuple[Completion, ...]] = {}
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    numbers: dict[str, list[int]] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    repeated: list[int] = []
    model = ""

    for number, row in enumerate(rows, 1):
        where = f"{path}: row {number}"
        model = model or clean(text_of(row.get("model")), 100)
        answers = tuple(answers_in(where, row, columns, how, path.suffix))
        key = text = None
        if "id" in columns:
            key = key_of(where, row, columns["id"])
        if "prompt" in columns:
            text = key_of(where, row, columns["prompt"])

        if matching:
            if not matching.is_asked(key, text):
                continue
            if matching.is_other(key, text):
                others[str(key)], key = str(text), None

        name = key if key is not None else str(text).strip()
        numbers.setdefault(name, []).append(number)
        content = name, tuple(answer.text for answer in answers)
        if content in seen:
            repeated.append(number)
        seen.add(content)
        if key is not None:
            by_id[key] = by_id.get(key, ()) + answers
        if text is not None:
            by_text[text.strip()] = by_text.get(text.strip(), ()) + answers
        if key is not None and text is not None:
            texts.setdefault(key, text)

    if matching:
        matching.add_by_question(by_id, by_text)
    require_clear_logprobs(path, names, columns, (*by_id.values(), *by_text.values()))

    def all_of(field: str) -> Sequence[str]:
        if field not in columns:
            return []
        return list(dict.fromkeys(str(cell(row, columns[field])) for row in rows))

    repeats = _repeats(repeated, numbers)
    return Recording(path, by_id, by_text, texts, all_of, others, model, repeats)


def _repeats(repeated: Sequence[int], rows: Mapping[str, Sequence[int]]) -> str:
    """Say which rows repeat another, else which prompts have more rows than the others.

    Args:
        rows: their numbers by id or prompt.
    """
    if repeated:
        return (
            f"{count(len(repeated), 'row')} with the prompt and the answer of an earlier one, each "
            f"counted as an answer (first: row {repeated[0]})"
        )
    fewest = min(map(len, rows.values()), default=0)
    more = [numbers for numbers in rows.values() if len(numbers) > fewest]
    if more:
        return (
            f"{count(len(more), 'prompt')} of {len(rows)} with more rows than the others, each "
            f"counted as an answer (first: rows {', '.join(map(str, more[0][:3]))})"
        )
    return ""


class _Matching:
    """Matches rows to the prompts whose answers are wanted.

    A row with the text of exactly one question, without its options, belongs to that question.
    """

    def __init__(self, prompts: Iterable[Prompt]) -> None:
        self._prompts = {prompt.id: prompt for prompt in prompts}
        self._texts = {prompt.request.strip() for prompt in self._prompts.values()}
        self._questions = Counter(map(_question, self._prompts.values()))

    def is_asked(self, key: str | None, text: str | None) -> bool:
        stripped = (text or "").strip()
        return (
            key in self._prompts
            or stripped in self._texts
            or stripped in self._questions
        )

    def is_other(self, key: str | None, text: str | None) -> bool:
        """True for a row that has a prompt's id but answers another prompt."""
        prompt = None if key is None else self._prompts.get(key)
        if prompt is None or text is None or prompt.request.strip() == text.strip():
            return False
        # An id may have slipped by a row; an exact text cannot.
        return text.strip() in self._texts or _is_other(prompt, text)

    def add_by_question(
        self,
        by_id: dict[str, tuple[Completion, ...]],
        by_text: Mapping[str, tuple[Completion, ...]],
    ) -> None:
        """Add the answers of rows that hold a question without its options."""
        for name, prompt in self._prompts.items():
            if name in by_id or prompt.request.strip() in by_text:
                continue
            question = _question(prompt)
            # Where several prompts share a question, their options tell them apart.
            if question in by_text and self._questions[question] == 1:
                by_id[name] = by_text[question]


def _question(prompt: Prompt) -> str:
    """A prompt's text, of a multiple-choice question without its options."""
    if not prompt.options:
        return prompt.request.strip()
    letter, text = next(iter(prompt.options.items()))
    first_option = rf"(?:^|\s)\(?{letter}\s*[.．、:：)]\s*{re.escape(text)}"
    return re.split(first_option, prompt.request, maxsplit=1)[0].strip()


def _is_other(prompt: Prompt, text: str) -> bool:
    """True if a text is a different prompt, not the same one reworded, shortened or wrapped.

    Then most three-character sequences of the shorter text do not occur in the longer one.
    """
    recorded = _trigrams(text)
    for own in (_trigrams(prompt.request), _trigrams(prompt.transcript)):
        if 2 * len(recorded & own) >= min(len(recorded), len(own)):
            return False
    return True


def _trigrams(text: str) -> set[str]:
    letters = letters_of(text)
    return {letters[start : start + 3] for start in range(len(letters) - 2)}


def recorded_rows(
    path: Path, only: Mapping[str, str] | None = None, may_be_partial: bool = False
) -> tuple[Iterable[Row], Sequence[str]]:
    """A file's rows, or those with given values by column, and the columns of all of them.

    Each row has answers to one prompt. With ``may_be_partial``, an unfinished log is accepted too.
    """
    rows = _all_rows(path, may_be_partial)
    for column, value in (only or {}).items():
        rows = _chosen(path, rows, column, value)
    columns = _require_one_model(path, rows)
    if not columns:
        raise DataError(f"{path}: no recorded answers")
    return rows, columns


def _all_rows(path: Path, may_be_partial: bool) -> Iterable[Row]:
    if path.suffix == ".eval":
        return inspect_logs.rows_of_archive(path, may_be_partial)
    if path.suffix == ".json":
        value = read_json(path)
        if inspect_logs.is_log(value):
            return inspect_logs.rows_of_json(path, value, may_be_partial)
        return objects(path, value)
    return Rows(partial(rows_in, path))


def _chosen(path: Path, rows: Iterable[Row], column: str, value: str) -> Rows:
    """Select the rows with a value in a column; at least one must have it."""
    where = f"{path}: recording.where {column}={value}"
    values = {text_of(cell(row, column)) for row in rows} - {""}
    if not values:
        require_in_data(column, header(rows), where)
    require_in_data(value, values, where, "value")
    return Rows(partial(_having, rows, column, value))


def _having(rows: Iterable[Row], column: str, value: str) -> Iterator[Row]:
    return (row for row in rows if text_of(cell(row, column)) == value)


def _require_one_model(path: Path, rows: Iterable[Row]) -> list[str]:
    """The columns of all rows; DataError if the answers come from two models."""
    columns: dict[str, None] = {}
    models: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(filter(None, row)))
        if row.get("model") is not None:
            models[clean(text_of(row["model"]), 100)] = None
    if len(models) > 1:
        names = list(models)
        shown = ", ".join(names[:8])
        if len(names) > 8:
            shown += ", ..."
        raise DataError(
            f"{path}: choose one model with --set "
            f"'recording.where={{model=\"{names[0]}\"}}': the file holds answers of "
            f"{len(names)}: {shown}"
        )
    return list(columns)
