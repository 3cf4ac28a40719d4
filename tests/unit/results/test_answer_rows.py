"""A run's records as one table."""

from pathlib import Path

import pytest
from hypothesis import given, settings

from refusal_checks.core.judgements import (
    Binary,
    Invalid,
    Label,
    Reason,
)
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.results import answer_rows
from refusal_checks.results.run_folder import RunFolder
from tests.unit.results.test_run_folder import runs_of_records

PROMPT = Prompt(
    "p1", (Message("user", "a/b «\n\x01»"),), {"category": "fraud", "language": "zh"}
)
ANSWER = Completion(
    "答案 \U0001f600", "length", 12, -0.123456789012345, "recorded", "closed"
)
REFUSED = Binary(Label.REFUSAL, "deflection", "it declines", cut=7)
LOST = Invalid(Reason.JUDGE_ERROR, "status 500")
RECORDS = [
    Record(PROMPT, 0, ANSWER, REFUSED, (Vote("one", REFUSED), Vote("two", LOST))),
    Record(PROMPT, 1, None, Invalid(Reason.PROMPT_TOO_LONG, "4096")),
]


def test_a_record_is_one_row_with_all_that_is_known(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_records("mine", RECORDS)
    first, second = answer_rows.rows(run)
    assert first["benchmark"] == "mine"
    groups = [(each["kind"], each["group"]) for each in first["groups"]]
    assert groups == [("category", "fraud"), ("language", "zh")]
    assert first["messages"] == [{"role": "user", "content": "a/b «\n\x01»"}]
    kinds = first["kind"], first["label"], first["category"]
    assert kinds == ("labelled", "refusal", "deflection")
    assert (first["tokens"], first["mean_logprob"]) == (12, -0.123456789012345)
    assert first["votes"] == [
        {
            "judge": "one",
            "kind": "labelled",
            "verdict": "refusal",
            "rationale": "it declines",
        },
        {
            "judge": "two",
            "kind": "invalid",
            "verdict": "judge error",
            "rationale": None,
        },
    ]
    assert second["answer"] is None
    assert (second["kind"], second["invalid_reason"]) == ("invalid", "prompt too long")


@settings(max_examples=3)
@given(records=runs_of_records())
def test_any_records_become_a_frame_of_one_row_each(
    records: list[Record], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = RunFolder(tmp_path_factory.mktemp("run"))
    run.write_records("mine", records)
    run.write_records("other", RECORDS)
    frame = run.frame()
    assert tuple(frame.columns) == answer_rows.COLUMNS
    rows = list(answer_rows.rows(run))
    assert len(frame) == len(rows) == len(records) + 2
    assert all(row.keys() == {*answer_rows.COLUMNS} for row in rows)
    assert [*frame["prompt_id"]] == [row["prompt_id"] for row in rows]
