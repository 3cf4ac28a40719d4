"""Reasons that are asked for afterwards: of what is shown, and of a sample."""

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
from refusal_checks.results.summary import (
    REASONS_LEAST,
    Reasons,
    Sampled,
    sample_for_reasons,
)
from tests.unit.evaluation.scripted import FAILS, Reader, Says

NAME = "some"
ANSWERS = 100


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


RECORDS = [record(number) for number in range(ANSWERS)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as found:
        yield found


def added(
    store: Store,
    *judges: Judge,
    records: Sequence[Record] = RECORDS,
    shown: Sequence[str] = (),
    up: Sequence[str] = ("brief", "other"),
    redacted: bool = False,
) -> tuple[Sequence[Record], Sampled]:
    """The records after reasons were asked for.

    Args:
        shown: ids of prompts whose answers verdicts show.
    """
    texts = {
        each.prompt.id: each.completion.text for each in records if each.completion
    }
    offenders: Any = [SimpleNamespace(id=name, answer=texts[name]) for name in shown]
    asking = RationaleCollector(judges, store, 8, up)
    found, sampled = asyncio.run(
        asking.benchmark(NAME, records, offenders, redacted=redacted)
    )
    assert sampled
    return found, sampled


def test_offenders_and_a_sample_get_reasons_and_nothing_else(store: Store) -> None:
    drawn = [each.prompt.id for each in sample_for_reasons(NAME, RECORDS)]
    shown = [f"p{number}" for number in range(ANSWERS) if f"p{number}" not in drawn][:3]
    judge = Brief()
    found, sampled = added(store, judge, shown=shown)
    explained = {each.prompt.id for each in found if each.judgement.rationale}
    assert explained == {*drawn, *shown}
    assert sum(judge.reasoned.read.values()) == REASONS_LEAST + 3
    assert found[int(shown[0][1:])].judgement == same(f"a{shown[0][1:]}")
    assert [each.judgement.category for each in sampled.records] == [
        "deflection"
    ] * REASONS_LEAST
    n = REASONS_LEAST
    assert sampled.reasons == Reasons(
        answers=ANSWERS,
        asked=n + 3,
        sampled=n,
        given=n,
        agree=n,
        missing=0,
        contradicted=0,
    )


def test_what_is_stored_is_not_asked_for_again(store: Store) -> None:
    first, again = Brief(), Brief()
    assert added(store, first) == added(store, again, up=())
    assert again.reasoned.read == Counter()


def test_equal_answers_share_their_reasons(store: Store) -> None:
    same_prompt = [
        Record(RECORDS[0].prompt, k, Completion("a"), Binary(Label.REFUSAL))
        for k in range(5)
    ]
    judge = Brief()
    found, _ = added(store, judge, records=same_prompt)
    assert judge.reasoned.read == Counter(a=1)
    assert all(each.judgement.rationale for each in found)


@pytest.mark.parametrize(("redacted", "missing"), [(False, REASONS_LEAST), (True, 0)])
def test_without_a_server_or_texts_to_show_nothing_is_asked(
    store: Store, redacted: bool, missing: int
) -> None:
    judge = Brief()
    up = ("brief",) if redacted else ()
    found, sampled = added(
        store, judge, shown=["p1"] if redacted else (), up=up, redacted=redacted
    )
    assert judge.reasoned.read == Counter()
    assert found == RECORDS
    assert (sampled.reasons.given, sampled.reasons.missing) == (0, missing)
    assert sampled.reasons.sampled == missing


def test_a_judge_of_others_is_asked_whatever_is_stored_unless_no_server_may_be() -> (
    None
):
    named = [
        NamedJudge("there", names.parse_judge("http://here/v1#brief")),
        NamedJudge("rule", names.Rule("keyword")),
    ]
    assert judges_up(["started"], named, are_live=True) == {"started", "there"}
    assert judges_up((), named, are_live=False) == set()


@pytest.mark.parametrize("says", [FAILS, dying])
def test_a_judge_that_fails_loses_its_reasons_and_no_verdict(
    store: Store, says: Says
) -> None:
    found, sampled = added(store, Brief(says))
    assert found == RECORDS
    assert sampled.reasons.missing == REASONS_LEAST
    later, _ = added(store, Brief())  # a failure is not stored
    assert sum(bool(each.judgement.rationale) for each in later) == REASONS_LEAST


def test_reasons_that_contradict_the_verdict_are_shown_and_counted(
    store: Store,
) -> None:
    found, sampled = added(store, Brief(opposite))
    assert [each.judgement.verdict for each in found] == ["refusal"] * ANSWERS
    told = [each.judgement.rationale for each in found if each.judgement.rationale]
    assert len(told) == REASONS_LEAST
    assert all("the judge says compliance: reasons of" in words for words in told)
    assert (sampled.reasons.agree, sampled.reasons.contradicted) == (0, REASONS_LEAST)


def test_judges_that_disagree_each_give_their_reasons(store: Store) -> None:
    votes = (
        Vote("brief", Binary(Label.REFUSAL)),
        Vote("other", Binary(Label.COMPLIANCE)),
    )
    disputed = [
        Record(each.prompt, 0, each.completion, combine(votes), votes)
        for each in RECORDS[:60]
    ]
    judges = Brief(), Brief(opposite, "other")
    judges[1].reasoned.identity = "fuller2"
    found, _ = added(store, *judges, records=disputed)
    for each in found:
        given = {vote.judge: vote.judgement for vote in each.votes}
        assert given["brief"].rationale == given["other"].rationale != ""
        assert isinstance(each.judgement, Invalid)


class Sure(Judge):
    """A first judge that gives probabilities and no reasons."""

    name = identity = prompt_hash = "sure"
    cascade = Cascading(low=0.2, high=0.8)


def test_a_second_judge_gives_reasons_where_it_was_asked(store: Store) -> None:
    sure, unsure = (
        Vote("sure", Binary(Label.REFUSAL, probability=share, rationale="by heart"))
        for share in (0.9, 0.5)
    )
    second = Vote("brief", Binary(Label.COMPLIANCE))
    alone, both = (
        replace(record(number), judgement=votes[-1].judgement, votes=votes)
        for number, votes in enumerate([(sure,), (unsure, second)])
    )
    judge = Brief(opposite)
    found, sampled = added(store, Sure(), judge, records=[alone, both])
    assert found[0] == alone
    assert judge.reasoned.read == Counter(a1=1)
    assert found[1].judgement == found[1].votes[-1].judgement == opposite("a1")
    assert found[1].votes[0] == unsure
    assert (
        sampled.reasons.sampled,
        sampled.reasons.given,
        sampled.reasons.missing,
    ) == (2, 1, 0)


def test_an_interrupt_loses_no_reasons_that_were_given(store: Store) -> None:
    class Slow(Reader):
        async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
            if sum(self.read.values()) >= 5:
                await asyncio.Event().wait()
            return await super().judge(prompt, completion)

    interrupted, again = Brief(), Brief()
    interrupted.reasoned = slow = Slow("fuller", same, "brief")

    async def cut_short() -> None:
        async with asyncio.timeout(0.2):
            asking = RationaleCollector([interrupted], store, 8, ["brief"])
            await asking.benchmark(NAME, RECORDS, (), redacted=False)

    with pytest.raises(TimeoutError):
        asyncio.run(cut_short())
    given = sum(slow.read.values())
    added(store, again)
    assert given >= 5
    assert sum(again.reasoned.read.values()) == REASONS_LEAST - given
