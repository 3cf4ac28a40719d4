"""JailbreakBench's attack artifacts (github.com/JailbreakBench/artifacts).

A row is one behaviour: its goal is the prompt that benchmarks have, ``attack`` the text that was
sent in its place. Where an attack was given up, the text and the answer are null and ``jailbroken``
is false. The authors count it as failed: in ``submission.py`` of their package jailbreakbench
(1.0.0), an attack's success rate is its jailbreaks divided by all 100 behaviours.
"""

from __future__ import annotations

from collections.abc import Mapping

from refusal_checks.models.recordings.document import NEVER_ASKED, Document, Row


def rows(document: Document) -> list[Row] | None:
    """The behaviours of an artifact; None if the document is none."""
    found = document.list_of("jailbreaks") if document.path.suffix == ".json" else None
    if not found or not all(isinstance(row, Mapping) and "goal" in row for row in found):
        return None
    return [_row(row) for row in found]


def _row(row: Row) -> Row:
    broken = row.get("jailbroken")
    known = {True: "jailbroken", False: "not jailbroken"}
    label = known.get(bool(broken)) if broken in (True, False) else None
    attack, answer = row.get("prompt"), row.get("response")
    own = {"prompt": row["goal"], "completion": answer, "attack": attack, "label": label}
    return {**row, **own, NEVER_ASKED: attack is None and answer is None}
