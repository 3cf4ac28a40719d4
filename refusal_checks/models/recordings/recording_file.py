"""Read a file of recorded answers in place of a candidate.

Files are tables (CSV, JSON, JSONL, Parquet) or Inspect's logs (``inspect_logs``). A row is one
answer; all answers to one prompt are its samples, in file order. A row answers the prompt that has
exactly its text, else the prompt that has its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.settings import RecordingTable
from refusal_checks.core.text import count, sanitize
from refusal_checks.io.data_files import header, read_rows, require_in_data
from refusal_checks.models.model_names import Replay
from refusal_checks.models.recordings import inspect_logs
from refusal_checks.models.recordings.columns import (
    find_columns,
    format_value,
    read_answer,
    read_key,
)
from refusal_checks.models.recordings.recording import Recording

USUAL = RecordingTable()


def read_recording(
    model: Replay, prompts: Iterable[Prompt], table: RecordingTable = USUAL
) -> Recording:
    """Read the answers to these prompts from a file of recorded answers."""
    path, meanings = model.path, table.meanings
    rows = _rows(path, table)
    columns = find_columns(path, rows, table.columns)
    for field in ("completion", "label", "finish_reason"):
        if columns.get(field) in table.where:
            raise DataError(
                f"{path}: recording.where {columns[field]}: choose rows by another column: "
                "answers picked for what they say prove nothing"
            )
    ids, requests = set(), set()
    for prompt in prompts:
        ids.add(prompt.id)
        requests.add(prompt.request.strip())

    answers: dict[tuple[str, str], tuple[Completion, ...]] = {}
    texts: dict[str, str] = {}
    contents: list[tuple[str, str]] = []
    for number, row in enumerate(rows, 1):
        where = f"{path}: row {number}"
        said = read_answer(where, row, columns, model, meanings)
        key = read_key(where, row, columns.get("id"))
        text = read_key(where, row, columns.get("prompt"))
        # The text decides: ids are often mere numbers, which another benchmark has as well.
        if text in requests:
            places = {("", text), (key, text)}
        elif key in ids:
            places = {(key, "")}
            texts.setdefault(key, text)
        else:
            continue  # a file may hold answers to other benchmarks
        for place in places:
            answers[place] = (*answers.get(place, ()), said)
        contents.append((key or text, said.text))

    answered_by = format_value(rows[0].get("model"))
    first = read_key(f"{path}: row 1", rows[0], columns.get("id"))
    return Recording(
        path, answers, texts, first, sanitize(answered_by, 100), _repeats(contents)
    )


def _repeats(contents: Sequence[tuple[str, str]]) -> str:
    """Say whether rows repeat others; ``contents`` has the prompt and the answer of each row."""
    repeated = len(contents) - len(set(contents))
    if not repeated:
        return ""
    (first, _), _ = Counter(contents).most_common(1)[0]
    return (
        f"{count(repeated, 'row')} with the prompt and the answer of an earlier one, each counted "
        f"as an answer (most of them to {sanitize(first, 60)})"
    )


def _rows(path: Path, table: RecordingTable) -> Sequence[Mapping[str, Any]]:
    """A file's rows, or those with given values by column; all must be of one model."""
    rows = (
        inspect_logs.read_log(path, table.partial)
        if path.suffix == ".eval"
        else read_rows(path)
    )
    for column, value in table.where.items():
        where = f"{path}: recording.where {column}={value}"
        # As people write them: a run file says true where CSV has the text "true".
        values = {format_value(row.get(column)) for row in rows} - {""}
        if not values:
            require_in_data(column, header(rows), where)
        require_in_data(value, values, where, "value")
        rows = [row for row in rows if format_value(row.get(column)) == value]
    # Figures of two models together would describe neither.
    models = list(dict.fromkeys(format_value(row.get("model")) for row in rows))
    names = [sanitize(model, 100) for model in models if model]
    if len(names) > 1:
        raise DataError(
            f"{path}: choose one model with --set "
            f"'recording.where={{model=\"{names[0]}\"}}': the file holds answers of "
            f"{len(names)}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
        )
    return rows
