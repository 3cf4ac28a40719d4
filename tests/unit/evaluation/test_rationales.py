"""Reasons that are asked for afterwards: of what is shown, from one judge that writes them."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refusal_checks.core.errors import EngineDiedError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote, combine
from refusal_checks.core.settings import Cascading
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Label
from refusal_checks.evaluation.config import NamedJudge
from refusal_checks.evaluation.rationales import RationaleCollector, judges_up
from refusal_checks.judges.judge import Judge
from refusal_checks.models import names
from tests.unit.evaluation.scripted import FAILS, Reader, Says


def same(text: str) -> Judgement:
    return Binary(Label.REFUSAL, "deflection", f"reasons of {text}")


def opposite(text: str) -> Judgement:
    return Binary(Label.COMPLIANCE, None, f"reasons of {text}")


def dying(text: str) -> Judgement:
    raise EngineDiedError("it ended")


class Brief(Judge):
    """A judge that gives verdicts alone."""

    identity = "brief"
    prompt_hash = "alone"

    def __init__(self, says: Says = same, name: str = "brief") -> None:
        self.name = name
        self.reasoned: Reader = Reader("fuller", says, name)


def record(number: int) -> Record:
    prompt = Prompt.single(f"p{number}", f"r{number}")
    return Record(prompt, 0, Completion(f"a{number}"), Binary(Label.REFUSAL))


RECORDS = [record(number) for number in range(10)]
SHOWN = ("p3", "p5")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as store:
        yield store


def explained(
    store: Store,
    *judges: Judge,
    records: Sequence[Record] = RECORDS,
    shown: Sequence[str] = SHOWN,
    up: Sequence[str] = ("brief", "other"),
) -> Sequence[Record]:
    """The records after reasons were asked for; gates show the answers to ``shown``."""
    offenders: Any = [
        SimpleNamespace(id=record.prompt.id, answer=record.completion.text)
        for record in records
        if record.completion and record.prompt.id in shown
    ]
    collector = RationaleCollector(judges, store, 8, up)
    return asyncio.run(collector.explained(records, offenders))


def test_what_is_shown_gets_reasons_once_and_nothing_else_does(store: Store) -> None:
    judge, again = Brief(), Brief()
    records = explained(store, judge)
    assert {each.prompt.id for each in records if each.judgement.rationale} == {*SHOWN}
    assert records[3].judgement == same("a3")
    assert judge.reasoned.read == Counter(a3=1, a5=1)
    assert explained(store, again, up=()) == records, "from the store"
    assert again.reasoned.read == Counter()


@pytest.mark.parametrize(
    ("says", "up"), [(FAILS, ("brief",)), (dying, ("brief",)), (same, ())]
)
def test_without_reasons_the_verdicts_stay_and_they_are_asked_for_later(
    store: Store, says: Says, up: Sequence[str]
) -> None:
    assert explained(store, Brief(says), up=up) == RECORDS
    later = explained(store, Brief())
    assert sum(bool(each.judgement.rationale) for each in later) == len(SHOWN)


def test_reasons_that_contradict_the_verdict_are_shown_and_change_nothing(
    store: Store,
) -> None:
    records = explained(store, Brief(opposite))
    assert {each.judgement.verdict for each in records} == {"refusal"}
    assert "the judge says compliance: reasons of" in records[3].judgement.rationale


def test_of_judges_that_disagree_the_first_gives_its_reasons(store: Store) -> None:
    votes = (
        Vote("brief", Binary(Label.REFUSAL)),
        Vote("other", Binary(Label.COMPLIANCE)),
    )
    disputed = [
        replace(each, judgement=combine(votes), votes=votes) for each in RECORDS
    ]
    for each in explained(store, *(Brief(), Brief(name="other")), records=disputed):
        first, second = (vote.judgement.rationale for vote in each.votes)
        assert first.startswith("reasons of")
        assert second == ""
        assert isinstance(each.judgement, Invalid)


class Sure(Judge):
    """A first judge that gives probabilities and no reasons."""

    name = identity = prompt_hash = "sure"
    cascade = Cascading(low=0.2, high=0.8)


def test_a_second_judge_gives_reasons_where_it_was_asked(store: Store) -> None:
    sure, unsure = (
        Vote("sure", Binary(Label.REFUSAL, probability=share)) for share in (0.9, 0.5)
    )
    second = Vote("brief", Binary(Label.COMPLIANCE))
    alone = replace(record(0), judgement=sure.judgement, votes=(sure,))
    both = replace(record(1), judgement=second.judgement, votes=(unsure, second))
    judge = Brief(opposite)
    records = explained(store, Sure(), judge, records=[alone, both], shown=["p0", "p1"])
    assert records[0] == alone
    assert judge.reasoned.read == Counter(a1=1)
    assert records[1].judgement == records[1].votes[-1].judgement == opposite("a1")
    assert records[1].votes[0] == unsure


def test_a_server_of_others_is_asked_whatever_is_stored_unless_none_may_be() -> None:
    named = [
        NamedJudge("there", names.parse_judge("http://here/v1#brief")),
        NamedJudge("rule", names.Rule("keyword")),
    ]
    assert judges_up(["started"], named, are_live=True) == {"started", "there"}
    assert judges_up((), named, are_live=False) == set()


def test_an_interrupt_loses_no_reasons_that_were_given(store: Store) -> None:
    stopped = asyncio.CancelledError

    class Stopping(Reader):
        async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
            if completion.text == "a5":
                await asyncio.sleep(0.05)  # the other one is stored meanwhile
                raise stopped
            return await super().judge(prompt, completion)

    interrupted, again = Brief(), Brief()
    interrupted.reasoned = Stopping("fuller", same, "brief")
    with pytest.raises(stopped):
        explained(store, interrupted)
    explained(store, again)
    assert again.reasoned.read.keys() == {"a5"}
