"""Two judges of which the second is asked where the first is unsure, and on a sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Vote
from refusal_checks.core.settings import Cascading
from refusal_checks.core.verdicts import Binary, Judgement, Label
from refusal_checks.run.plan import Pending
from tests.unit.run.scripted import PLAN, Reader, Speaker, evaluate, left

UNSURE = ("answer p1-0", "answer p4-1")


class Weigher(Reader):
    """A judge that gives probabilities: 0.99, or as a test says."""

    def __init__(
        self, given: Mapping[str, float] = dict.fromkeys(UNSURE, 0.6), sample: float = 0.0
    ) -> None:
        super().__init__("first", name="bundled")
        self.cascade = Cascading(sample=sample)
        self._given = given

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        await super().judge(prompt, completion)
        return Binary(Label.REFUSAL, probability=self._given.get(completion.text, 0.99))


def second() -> Reader:
    return Reader("second", name="J", label=Label.COMPLIANCE)


def test_the_second_judge_is_asked_where_the_first_is_unsure(tmp_path: Path) -> None:
    first, other = Weigher(), second()
    found = evaluate(Speaker(), (first, other), tmp_path)
    assert sum(first.read.values()) == 12
    assert set(other.read) == set(UNSURE)
    records = [record for name in PLAN for record in found[name]]
    by_answer = {record.completion.text: record for record in records if record.completion}
    unsure = by_answer.pop("answer p1-0"), by_answer.pop("answer p4-1")
    for record in unsure:
        assert record.judgement == Binary(Label.COMPLIANCE)
        assert record.votes == (
            Vote("bundled", Binary(Label.REFUSAL, probability=0.6)),
            Vote("J", Binary(Label.COMPLIANCE)),
        )
    assert {record.judgement for record in by_answer.values()} == {
        Binary(Label.REFUSAL, probability=0.99)
    }
    assert not any(record.votes for record in by_answer.values())


def test_the_second_judge_reads_all_answers_to_the_sample_and_changes_no_verdict(
    tmp_path: Path,
) -> None:
    """At least ten prompts are drawn, which are more than there are."""
    other = second()
    found = evaluate(Speaker(), (other, Weigher({}, sample=0.5)), tmp_path)
    assert sum(other.read.values()) == 12
    for record in found["first"]:
        assert record.judgement == Binary(Label.REFUSAL, probability=0.99)
        assert [vote.judge for vote in record.votes] == ["bundled", "J"]


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_left_to_ask_for(tmp_path: Path, order: int) -> None:
    both = (Weigher(), second())[::order]
    assert left(Speaker(), both, tmp_path) == Pending(12, 24, frozenset({"bundled", "J"}))
    evaluate(Speaker(), Weigher(), tmp_path)  # alone
    assert left(Speaker(), both, tmp_path) == Pending(0, 2, frozenset({"J"}))
    evaluate(Speaker(), both, tmp_path)
    assert left(Speaker(), both, tmp_path) == Pending(0, 0)
    sampled = (Weigher(sample=0.1), second())
    assert left(Speaker(), sampled, tmp_path) == Pending(0, 10, frozenset({"J"}))


def test_verdicts_are_those_of_each_judge_alone(tmp_path: Path) -> None:
    """A judge that was in a cascade need not be asked again for what it said there."""
    evaluate(Speaker(), (Weigher(), second()), tmp_path)
    assert left(Speaker(), Weigher(), tmp_path) == Pending(0, 0)
    assert left(Speaker(), second(), tmp_path) == Pending(0, 10, frozenset({"J"}))
