"""lm-evaluation-harness's sample logs: ``samples_TASK_DATE.jsonl``, written by ``--log_samples``.

The prompt is the document's own, without the examples and templates around it. Answers are the
model's whole words (``resps``), not what a task's filter left of them; a document that several
filters read counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from refusal_checks.core.csv_jsonl import read_rows
from refusal_checks.core.errors import DataError
from refusal_checks.models.recordings.document import Document, Row, prompt_in


def rows(document: Document) -> list[Row] | None:
    """The logged samples; None if the document holds none.

    Raises:
        DataError: they have no answers in words.
    """
    if document.path.suffix not in (".jsonl", ".ndjson") or not _is_sample(document.value):
        return None
    found, first = [], document.value.get("filter")
    for number, row in enumerate(read_rows(document.path), 1):
        if row.get("filter") == first:
            found.append(_row(row, f"{document.path}: row {number}"))
    return found


def _is_sample(row: Any) -> bool:
    return isinstance(row, Mapping) and {"doc_id", "doc"} <= set(row) and (
        "resps" in row or "filtered_resps" in row
    )  # fmt: skip


def _row(row: Row, where: str) -> Row:
    answers = list(_flat(row.get("resps") or row.get("filtered_resps")))
    if any(answer is not None and not isinstance(answer, str) for answer in answers):
        raise DataError(
            f"{where}: log a task of output_type generate_until: this one compares probabilities "
            "(loglikelihood) and records no answer in words"
        )
    return {**row, "prompt": prompt_in(row.get("doc")) or _sent(row), "completion": answers or None}


def _flat(value: Any) -> Iterator[Any]:
    """The answers of nested lists: by request, then by repetition."""
    if isinstance(value, list):
        for one in value:
            yield from _flat(one)
    else:
        yield value


def _sent(row: Row) -> str | None:
    """The text that was sent, where the document has no prompt of its own."""
    sent = row.get("arguments")
    while isinstance(sent, (list, Mapping)) and sent:
        sent = next(iter(sent.values())) if isinstance(sent, Mapping) else sent[0]
    return sent if isinstance(sent, str) else None
