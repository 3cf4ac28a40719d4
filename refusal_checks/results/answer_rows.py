"""A run's answers as rows of a data frame, and of the files of disputed answers."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from refusal_checks.core.records import Record, is_disputed
from refusal_checks.results.run_folder import RunFolder

Row = dict[str, Any]


_NAMES = """
    benchmark prompt_id reference answer finish_reason reasoning recorded_label kind verdict label
    category option read_by rationale invalid_reason invalid_detail mean_logprob refusal_share
    partial_share probability moral rating refused specific convincing score sample tokens degree
    cut escaped correct unfinished groups messages votes
"""

COLUMNS = tuple(_NAMES.split())

_EMPTY: Row = dict.fromkeys(COLUMNS)


def rows(run: RunFolder) -> Iterator[Row]:
    of_all: Row = {"unfinished": run.is_unfinished}
    for benchmark in run.benchmarks:
        for record in run.records(benchmark):
            yield _row(record) | of_all | {"benchmark": benchmark}


def _row(record: Record) -> Row:
    prompt, answer = record.prompt, record.completion
    return _EMPTY | {
        "prompt_id": prompt.id,
        "groups": [
            {"kind": kind, "group": group} for kind, group in prompt.groups.items()
        ],
        "messages": [asdict(turn) for turn in prompt.messages],
        "reference": prompt.reference,
        "sample": record.sample,
        "answer": answer and answer.text,
        "finish_reason": answer and answer.finish_reason,
        "tokens": answer and answer.tokens,
        "mean_logprob": answer and answer.mean_logprob,
        "reasoning": answer and answer.reasoning,
        "recorded_label": answer and answer.label,
        **record.judgement.cells(),
        "votes": [
            {
                "judge": vote.judge,
                "kind": vote.judgement.kind,
                "verdict": vote.judgement.in_words,
                "rationale": vote.judgement.cells().get("rationale"),
            }
            for vote in record.votes
        ],
    }


DISAGREEMENTS = (
    "disagreements"  # the folder of a run's folder with a file per benchmark
)


def disagreements(benchmark: str, records: Iterable[Record]) -> Iterator[str]:
    """Yield a benchmark's disputed answers as JSON lines; texts are not escaped."""
    for record in records:
        if not is_disputed(record.votes):
            continue
        row = {
            "benchmark": benchmark,
            "prompt_id": record.prompt.id,
            "sample": record.sample,
            "verdict": record.judgement.in_words,
            "votes": [
                {
                    "judge": vote.judge,
                    "verdict": vote.judgement.in_words,
                    "rationale": vote.judgement.rationale,
                }
                for vote in record.votes
            ],
            "prompt": record.prompt.transcript,
            "answer": record.completion.text if record.completion else "",
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"
