"""Read a file of recorded answers in place of a candidate.

Files are tables (CSV, JSON, JSONL, Parquet) or Inspect's logs (``inspect_logs``). A row is one
answer, or a list of them; all answers to one prompt are its samples, in file order. A row answers
the prompt that has exactly its text, else the prompt that has its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import header, read_rows, require_in_data
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
    text_of,
)
from refusal_checks.models.recordings.recording import Recording

USUAL = ReplayOptions()


def read(
    path: Path, prompts: Iterable[Prompt], how: ReplayOptions = USUAL
) -> Recording:
    """Read the answers to these prompts from a file of recorded answers."""
    rows = _rows(path, how)
    columns = columns_of(path, rows, how.columns)
    ids, requests = set(), set()
    for prompt in prompts:
        ids.add(prompt.id)
        requests.add(prompt.request.strip())

    answers: dict[tuple[str, str], tuple[Completion, ...]] = {}
    texts: dict[str, str] = {}
    contents: list[tuple[str, ...]] = []
    all_ids: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path}: row {number}"
        said = answers_in(where, row, columns, how)
        key = key_of(where, row, columns.get("id"))
        text = key_of(where, row, columns.get("prompt"))
        all_ids[key] = None
        if text in requests:
            places = {("", text), (key, text)}
        elif key in ids:
            places = {(key, "")}
            texts.setdefault(key, text)
        else:
            continue
        for place in places:
            answers[place] = (*answers.get(place, ()), *said)
        contents.append((key or text, *(answer.text for answer in said)))

    model = text_of(rows[0].get("model"))
    known_ids = list(all_ids) if "id" in columns else []
    return Recording(
        path, answers, texts, known_ids, clean(model, 100), _repeats(contents)
    )


def _repeats(contents: Sequence[tuple[str, ...]]) -> str:
    """Say whether rows repeat others, else whether prompts have other numbers of rows than most.

    Args:
        contents: the prompt and the answers of each row.
    """
    each = "each counted as an answer"
    repeated = len(contents) - len(set(contents))
    if repeated:
        first = Counter(contents).most_common(1)[0][0][0]
        return (
            f"{count(repeated, 'row')} with the prompt and the answer of an earlier one, {each} "
            f"(most of them to {clean(first, 60)})"
        )
    rows = Counter(content[0] for content in contents)
    usual = Counter(rows.values()).most_common(1)
    others = [name for name in rows if rows[name] != usual[0][0]]
    if others:
        return (
            f"{count(len(others), 'prompt')} of {len(rows)} with another number of rows than the "
            f"others, {each} (first: {clean(others[0], 60)}, {count(rows[others[0]], 'row')})"
        )
    return ""


def _rows(path: Path, how: ReplayOptions) -> Sequence[Mapping[str, Any]]:
    """A file's rows, or those with given values by column; all must be of one model."""
    rows = (
        inspect_logs.rows_of(path, how.partial)
        if path.suffix == ".eval"
        else read_rows(path)
    )
    for column, value in how.only.items():
        where = f"{path}: recording.where {column}={value}"
        values = {text_of(cell(row, column)) for row in rows} - {""}
        if not values:
            require_in_data(column, header(rows), where)
        require_in_data(value, values, where, "value")
        rows = [row for row in rows if text_of(cell(row, column)) == value]
    models = list(dict.fromkeys(text_of(row.get("model")) for row in rows))
    names = [clean(model, 100) for model in models if model]
    if len(names) > 1:
        raise DataError(
            f"{path}: choose one model with --set "
            f"'recording.where={{model=\"{names[0]}\"}}': the file holds answers of "
            f"{len(names)}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
        )
    return rows
