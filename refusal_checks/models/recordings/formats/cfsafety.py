"""The item scores that CFSafety's authors released: a score per prompt, without the answers.

Columns: model, category, item (the prompt's row in its category), moral_judgement, score. Read
them with ``--judge labels --replay-partial --replay-where model=GPT4``.
"""

from __future__ import annotations

from refusal_checks.core.csv_jsonl import read_rows
from refusal_checks.models.recordings.document import Document, Row

_COLUMNS = frozenset({"category", "item", "moral_judgement", "score"})
_ANSWER = "(the answer was not released, only its score)"


def rows(document: Document) -> list[Row] | None:
    """The items; None if the document is another table."""
    if document.path.suffix != ".csv" or not isinstance(document.value, dict):
        return None
    if not set(document.value) >= _COLUMNS:
        return None
    return [
        {
            **row,
            "id": f"{row['category']}-{row['item']}",
            "completion": _ANSWER,
            "label": f"{row['score']} of 5, moral {row['moral_judgement']}",
        }
        for row in read_rows(document.path)
    ]
