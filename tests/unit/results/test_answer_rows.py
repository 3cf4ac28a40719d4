"""A run's records as one table."""

from pathlib import Path

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
    own, other = (tuple(vote.values()) for vote in first["votes"])
    assert own == ("one", "labelled", "refusal", "it declines")
    assert other == ("two", "invalid", "judge error", None)
    assert second["answer"] is None
    assert (second["kind"], second["invalid_reason"]) == ("invalid", "prompt too long")

    frame = run.frame()
    assert tuple(frame.columns) == answer_rows.COLUMNS == tuple(first)
    assert [*frame["sample"]] == [0, 1]
