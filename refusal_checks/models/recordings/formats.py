"""Read recorded answers in other tools' formats, each recognised by its content."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import rows_in
from refusal_checks.core.errors import DataError
from refusal_checks.models.recordings.documents import Document, Row, Rows
from refusal_checks.models.recordings.inspect_logs import inspect_log

NEVER_ASKED = "never asked"
"""The column, which no file has, of rows whose answer is missing because nothing was sent."""

PROMPTS = (
    "prompt", "question", "instruction", "request", "query", "goal", "behavior", "Behavior",
    "input", "text",
)  # fmt: skip
"""Names under which data sets keep the prompt, the most telling first."""

JSONL = (".jsonl", ".ndjson")


def lm_eval(document: Document) -> Iterable[Row] | None:
    """Read lm-evaluation-harness's samples: ``samples_TASK_DATE.jsonl``, by ``--log_samples``.

    The prompt is the document's own if it has one, without the examples and templates around it.
    Answers are the model's full output (``resps``), not what a task's filter left of it.
    """
    if document.path.suffix not in JSONL:
        return None
    first = document.value
    if not {"doc_id", "doc"} <= first.keys():
        return None
    if not {"resps", "filtered_resps"} & first.keys():
        return None
    return Rows(partial(_documents, document.path, first.get("filter")))


def _documents(path: Path, filter_name: Any) -> Iterator[Row]:
    for number, row in enumerate(rows_in(path), 1):
        # A document that several filters read has a row for each: it counts once.
        if row.get("filter") != filter_name:
            continue

        answers = list(_leaves(row.get("resps") or row.get("filtered_resps")))
        for answer in answers:
            if answer is not None and not isinstance(answer, str):
                raise DataError(
                    f"{path}: row {number}: log a task of output_type generate_until: this "
                    "one compares probabilities (loglikelihood) and records no answer in words"
                )

        prompt = _prompt_in(row.get("doc")) or _first_text(row.get("arguments"))
        yield {**row, "prompt": prompt, "completion": answers or None}


def _prompt_in(document: Any) -> str | None:
    """The prompt among a document's columns, by its usual names; None if unclear."""
    if isinstance(document, str):
        return document
    if not isinstance(document, Mapping):
        return None
    for name in PROMPTS:
        if isinstance(document.get(name), str):
            return str(document[name])
    texts = [value for value in document.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def _first_text(arguments: Any) -> str | None:
    """The first text of a request's arguments, which are nested in lists and objects."""
    for value in _leaves(arguments):
        if isinstance(value, Mapping):
            text = _first_text(list(value.values()))
            if text is not None:
                return text
        elif isinstance(value, str):
            return value
    return None


def _leaves(value: Any) -> Iterator[Any]:
    """The values in nested lists, in order."""
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def jailbreakbench(document: Document) -> list[Row] | None:
    """Read JailbreakBench's attack artifacts (github.com/JailbreakBench/artifacts).

    A row is one behaviour: its goal is the prompt in benchmarks, ``attack`` the text that was sent
    instead. If an attack was given up, text and answer are null and ``jailbroken`` is false. The
    authors count it as failed: in ``submission.py`` of their package jailbreakbench (1.0.0), an
    attack's success rate divides its jailbreaks by all 100 behaviours.
    """
    if document.path.suffix != ".json" or not isinstance(document.value, Mapping):
        return None
    behaviours = document.value.get("jailbreaks")
    if not isinstance(behaviours, list) or not behaviours:
        return None
    if not all(isinstance(row, Mapping) and "goal" in row for row in behaviours):
        return None

    rows = []
    for row in behaviours:
        attack, answer = row.get("prompt"), row.get("response")
        label = None
        if row.get("jailbroken") in (True, False):
            label = "jailbroken" if row["jailbroken"] else "not jailbroken"
        own = {
            "prompt": row["goal"],
            "completion": answer,
            "attack": attack,
            "label": label,
            NEVER_ASKED: attack is None and answer is None,
        }
        rows.append({**row, **own})
    return rows


def cfsafety(document: Document) -> list[Row] | None:
    """Read the item scores that CFSafety's authors released: a score per prompt, no answers.

    Columns: model, category, item (the prompt's row in its category), moral_judgement, score. Read
    them with ``--judge labels``, ``partial = true`` and ``where = { model = "GPT4" }``.
    """
    if document.path.suffix != ".csv":
        return None
    if not {"category", "item", "moral_judgement", "score"} <= document.value.keys():
        return None
    rows = []
    for row in rows_in(document.path):
        own = {
            "id": f"{row['category']}-{row['item']}",
            "completion": "(the answer was not released, only its score)",
            "label": f"{row['score']} of 5, moral {row['moral_judgement']}",
        }
        rows.append({**row, **own})
    return rows


FORMATS = (cfsafety, inspect_log, jailbreakbench, lm_eval)
"""Each reads a document's rows, or returns None for a document in another format."""
