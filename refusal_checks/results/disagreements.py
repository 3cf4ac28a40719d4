"""The answers on which several judges disagree, one JSON object per line, for people to settle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.records import Record, is_disputed

FILE = "disagreements.jsonl"
"""The file's name in a run's folder."""


def append(folder: Path, benchmark: str, records: Sequence[Record]) -> None:
    """Add a benchmark's disputed answers to the run's list."""
    rows = [_row(benchmark, record) for record in records if is_disputed(record.votes)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with (folder / FILE).open("ab") as file:
        file.write(text.encode("utf-8", "replace"))


def _row(benchmark: str, record: Record) -> dict[str, Any]:
    """One disputed answer; its texts are untrusted and unchanged."""
    votes = [(vote.judge, vote.judgement) for vote in record.votes]
    return {
        "benchmark": benchmark,
        "prompt_id": record.prompt.id,
        "sample": record.sample,
        "verdict": record.judgement.verdict,
        "votes": [
            {"judge": judge, "verdict": given.verdict, "rationale": given.rationale}
            for judge, given in votes
        ],
        "prompt": record.prompt.transcript,
        "answer": record.completion.text if record.completion else "",
    }
