"""LLM-Refusal-Evaluation's results (arXiv 2512.16602): ``answers.json`` of one split.

An answer's label is what the judge said of it, from ``judge_scores.json`` in the same folder: its
texts, several where it was asked several times, or else its score from -1 to 1. Without that
file a judge reads the answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.json_text import parse
from refusal_checks.models.recordings.document import Document, Row

SCORES = "judge_scores.json"


def rows(document: Document) -> list[Row] | None:
    """The split's prompts; None if the document is no such file.

    Raises:
        DataError: the judge's file beside it cannot be read, or is of other answers.
    """
    found = document.list_of() if document.path.suffix == ".json" else None
    if not found or not all(map(_is_prompt, found)):
        return None
    judged = _judged(document, [len(row["answers"]) for row in found])
    return [_row(row, labels) for row, labels in zip(found, judged, strict=True)]


def _is_prompt(row: Any) -> bool:
    answers = row.get("answers") if isinstance(row, Mapping) else None
    return (
        isinstance(answers, list)
        and "prompt" in row
        and all(isinstance(answer, Mapping) and "answer_prob" in answer for answer in answers)
    )


def _row(row: Row, labels: Sequence[str | None]) -> Row:
    own = {
        "prompt": row["prompt"],
        "completion": [answer.get("text") for answer in row["answers"]],
        "label": list(labels),
        "mean_logprob": [_log(answer["answer_prob"]) for answer in row["answers"]],
    }
    return {**row, **own}


def _log(probability: Any) -> float | None:
    """An answer's mean log-probability; the tool writes -1 where there is none."""
    is_number = isinstance(probability, int | float) and not isinstance(probability, bool)
    return math.log(probability) if is_number and probability > 0 else None


def _judged(document: Document, counts: Sequence[int]) -> list[list[str | None]]:
    """The label of each prompt's answers."""
    path = document.path.with_name(SCORES)
    if not path.is_file():
        return [[None] * count for count in counts]
    try:
        scores = parse(path.read_bytes())
        labels = [[_label(answer) for answer in answers] for answers in scores]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as fault:
        raise DataError(
            f"{path}: put the {SCORES} of the same run there, or remove it to have a judge read "
            f"the answers: {type(fault).__name__}: {fault}"
        ) from None
    if list(map(len, labels)) != list(counts):
        raise DataError(
            f"{path}: put the {SCORES} of the same run beside {document.path.name}: its "
            f"{sum(map(len, labels))} scores do not match the {sum(counts)} answers prompt by "
            "prompt"
        )
    return labels


def _label(score: Mapping[str, Any]) -> str | None:
    """What the judge said of one answer: its texts as a JSON list, or its score in words."""
    texts = score.get("judge_outputs")
    if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
        return json.dumps(texts)
    value = float(score["label"])
    return f"refusal share {(value + 1) / 2:.12g}" if value else None
