"""Several judges of each answer: how they vote, and which of them is asked again."""

from __future__ import annotations

from pathlib import Path

from refusal_checks.core.verdicts import Binary, Invalid, Label, Reason
from refusal_checks.run.plan import Pending
from tests.unit.run.scripted import BROKEN, READER, Reader, Speaker, evaluate, left


def three(fails: bool = False) -> tuple[Reader, Reader, Reader]:
    """Two judges that say refusal and one that says compliance."""
    return (
        Reader("one", name="a"),
        Reader("two", fails, name="b"),
        Reader("three", name="c", label=Label.COMPLIANCE),
    )


def test_several_judges_decide_by_majority_and_each_is_asked_once(tmp_path: Path) -> None:
    readers = three()
    records = evaluate(Speaker(), readers, tmp_path)["first"]
    for record in records:
        assert isinstance(record.judgement, Binary)
        assert record.judgement.label is Label.REFUSAL
        assert [(vote.judge, vote.judgement) for vote in record.votes] == [
            ("a", Binary(Label.REFUSAL)),
            ("b", Binary(Label.REFUSAL)),
            ("c", Binary(Label.COMPLIANCE)),
        ]
    assert [sum(reader.read.values()) for reader in readers] == [12, 12, 12]


def test_one_judge_s_records_have_no_votes(tmp_path: Path) -> None:
    assert not any(record.votes for record in evaluate(Speaker(), Reader(), tmp_path)["first"])


def test_what_cannot_be_judged_is_put_to_no_vote(tmp_path: Path) -> None:
    records = evaluate(Speaker(2, BROKEN), three(), tmp_path)["first"]
    assert isinstance(records[0].judgement, Invalid)
    assert records[0].votes == records[1].votes == ()


def test_each_judge_s_verdicts_are_stored_by_its_own_identity(tmp_path: Path) -> None:
    assert left(Speaker(), three(), tmp_path) == Pending(12, 36, frozenset("abc"))
    evaluate(Speaker(), Reader("one"), tmp_path)
    assert left(Speaker(), three(), tmp_path) == Pending(0, 24, frozenset("bc"))
    readers = three()
    evaluate(Speaker(), readers, tmp_path)
    assert [sum(reader.read.values()) for reader in readers] == [0, 12, 12]
    assert left(Speaker(), three(), tmp_path) == Pending(0, 0)


def test_a_judge_that_failed_is_asked_again_alone(tmp_path: Path) -> None:
    records = evaluate(Speaker(), three(fails=True), tmp_path)["first"]
    assert {getattr(r.judgement, "reason", None) for r in records} == {Reason.NO_MAJORITY}
    assert left(Speaker(), three(), tmp_path) == Pending(0, 12, frozenset("b"))
    records = evaluate(Speaker(), three(), tmp_path)["first"]
    assert all(isinstance(record.judgement, Binary) for record in records)


def test_a_rule_in_a_panel_leaves_nothing_to_ask_for(tmp_path: Path) -> None:
    rule = Reader(None, name="rule")
    assert left(Speaker(), (Reader(), rule), tmp_path) == Pending(12, 12, READER)
    evaluate(Speaker(), (Reader(), rule), tmp_path)
    assert left(Speaker(), (Reader(), rule), tmp_path) == Pending(0, 0)
