"""promptfoo's results: ``promptfoo eval -o results.json`` (versions 2 and 3).

The prompt is the test's variable of that name (or its only text), else the text that was sent.
A file with several providers or prompt templates needs ``--replay-where provider=...`` or
``promptIdx=...``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from refusal_checks.models.recordings.document import Document, Row, prompt_in


def rows(document: Document) -> list[Row] | None:
    """The results, one row each; None if the document holds none."""
    if document.path.suffix != ".json":
        return None
    found = document.list_of("results", "results") or document.list_of("results")
    if not found or not all(isinstance(row, Mapping) and "response" in row for row in found):
        return None
    return [_row(row) for row in found]


def _row(row: Mapping[str, Any]) -> Row:
    sent, case = row.get("prompt"), row.get("testCase")
    variables = row.get("vars") or (case.get("vars") if isinstance(case, Mapping) else None)
    raw = sent.get("raw") if isinstance(sent, Mapping) else sent
    answer, provider = row["response"], row.get("provider")
    output = answer.get("output") if isinstance(answer, Mapping) else None
    if isinstance(provider, Mapping):
        provider = provider.get("label") or provider.get("id")
    own = {"prompt": prompt_in(variables) or raw, "provider": provider}
    return {**row, **own, "completion": _words(output)}


def _words(output: Any) -> str | None:
    if output is None or isinstance(output, str):
        return output
    return json.dumps(output, ensure_ascii=False)
