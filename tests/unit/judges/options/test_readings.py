"""The labelled set of answers to multiple-choice questions, and what rules read of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import refusal_checks.judges.options
from refusal_checks.judges.options.settle import read

FILE = Path(refusal_checks.judges.options.__file__).parent / "readings.jsonl"


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def test_the_set_is_large_and_its_labels_are_possible() -> None:
    found = rows()
    assert len(found) == len({(row["question"], row["answer"]) for row in found}) >= 300
    assert len({row["id"] for row in found}) == len(found)
    assert {row["language"] for row in found} == {"en", "zh"}
    for row in found:
        assert row["reading"] in {*row["options"], "several", "none", "refusal"}


def test_rules_read_most_of_it_and_nothing_wrongly() -> None:
    counts: Counter[str] = Counter()
    for row in rows():
        found = read(row["answer"], row["options"], row["question"])
        said = next(iter(found.letters)) if found.outcome == "option" else found.outcome
        assert said in (row["reading"], "unreadable"), row
        counts["read" if said == row["reading"] else "unread"] += 1
    assert counts["read"] >= 240
