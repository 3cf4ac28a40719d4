"""Collect reasons for the verdicts that reports show, from a judge that gives them on request.

Reasons cost requests of their own, so they are requested once it is known which answers count
against a gate, while the engines are still up. They are stored like verdicts and change none.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.errors import InfrastructureError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote, is_disputed
from refusal_checks.core.store import Store, content_key
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Reason
from refusal_checks.evaluation.aio import SingleFlight, WriteBatcher
from refusal_checks.evaluation.config import NamedJudge
from refusal_checks.evaluation.planning import verdict_key
from refusal_checks.gates.offenders import Offender, answers_of
from refusal_checks.judges import cascade
from refusal_checks.judges.judge import Judge
from refusal_checks.models.names import Attached

_VERSION = 1  # part of the key of stored grounds; raised when they are asked for in another way

MOST_REASONED = 200
"""Ask for reasons for at most so many answers of a benchmark."""

MOST_WITH_GROUNDS = 20
"""The same limit if the reasons for one answer cost several requests."""


def explaining_judge(judges: Sequence[Judge]) -> Judge | None:
    """The first judge that can write reasons afterwards, else the first that gives grounds."""
    for judge in judges:
        if judge.reasoned:
            return judge
    for judge in judges:
        if judge.gives_grounds:
            return judge
    return None


def judges_up(
    asked: Iterable[str], judges: Iterable[NamedJudge], *, are_live: bool
) -> frozenset[str]:
    """Names of the judges whose servers are up: those asked for verdicts, or attached and live."""
    up = set(asked)
    if are_live:
        up |= {judge.name for judge in judges if isinstance(judge.model, Attached)}
    return frozenset(up)


class RationaleCollector:
    """Asks one judge, if its server is up, for the reasons for its verdicts."""

    def __init__(
        self, judges: Sequence[Judge], store: Store, at_once: int, up: Collection[str]
    ) -> None:
        self._judges = judges
        self._judge = explaining_judge(judges)
        self._is_up = self._judge is not None and self._judge.name in up
        self._store = store
        self._writer = WriteBatcher(store)
        self._free = asyncio.Semaphore(at_once)
        self._verdicts = SingleFlight[Judgement | None]()

    async def explained(
        self, records: Sequence[Record], offenders: Sequence[Offender]
    ) -> Sequence[Record]:
        """Return the records, with reasons added to those that reports show.

        Reports show the offenders of gates, and answers on which judges disagree.
        """
        if self._judge is None:
            return records
        most = MOST_REASONED if self._judge.reasoned else MOST_WITH_GROUNDS
        shown = {_place(record): record for record in _shown(records, offenders)}
        places = list(shown)[:most]
        explained = await asyncio.gather(
            *(self._with_reasons(self._judge, shown[place]) for place in places)
        )
        by_place = dict(zip(places, explained, strict=True))
        return [by_place.get(_place(record), record) for record in records]

    async def _with_reasons(self, judge: Judge, record: Record) -> Record:
        """Add the judge's reasons to a record, unless the judge did not read it."""
        if record.completion and record.completion.is_withheld:
            return record
        if not record.votes:
            # One judge decided: the only one, or the first of a cascade.
            formed = cascade.of(self._judges)
            decided = formed.first if formed else self._judges[0]
            if decided is not judge:
                return record
            judgement = await self._reasons(judge, record, record.judgement)
            return replace(record, judgement=judgement)

        votes = []
        for vote in record.votes:
            if vote.judge == judge.name:
                judgement = await self._reasons(judge, record, vote.judgement)
                vote = Vote(vote.judge, judgement)
            votes.append(vote)
        decision = cascade.decide(self._judges, votes)
        return replace(record, judgement=decision, votes=tuple(votes))

    async def _reasons(
        self, judge: Judge, record: Record, verdict: Judgement
    ) -> Judgement:
        """Add its reasons to a verdict, if there are any."""
        assert record.completion, "there is an answer to judge"
        prompt, answer = as_judged(record.prompt, record.completion)
        if judge.reasoned and isinstance(verdict, Binary):
            reasoned = await self._reasoned_verdict(judge.reasoned, prompt, answer)
            if reasoned is not None:
                reasoned = judge.labelled(prompt, reasoned)
            if isinstance(reasoned, Binary):
                return verdict.explained(reasoned)
        elif judge.gives_grounds and not isinstance(verdict, Invalid):
            return await self._with_grounds(judge, prompt, answer, verdict)
        return verdict

    async def _reasoned_verdict(
        self, reasoned: Judge, prompt: Prompt, answer: Completion
    ) -> Judgement | None:
        """Ask the same judge for a verdict that begins with its reasons.

        Looks in the store first; None if it has none and the server is not up.
        """
        key = verdict_key(reasoned, prompt, answer.text)

        async def ask() -> Judgement:
            async with self._free:
                try:
                    return await reasoned.judge(prompt, answer)
                except InfrastructureError as fault:
                    # Verdicts are there already: they are not lost for want of reasons.
                    return Invalid(Reason.JUDGE_ERROR, str(fault))

        async def stored_or_asked() -> Judgement | None:
            self._store.use([key])
            if not self._is_up:
                return self._store.judgements([key]).get(key)
            return await self._writer.judged(key, ask)

        return await self._verdicts.get(key, stored_or_asked)

    async def _with_grounds(
        self, judge: Judge, prompt: Prompt, answer: Completion, verdict: Judgement
    ) -> Judgement:
        """Add the grounds to a classifier's verdict, from the store if possible."""
        key = content_key("grounds", _VERSION, verdict_key(judge, prompt, answer.text))
        self._store.use([key])
        read = partial(self._store.judgements, [key])
        async with self._writer.claimed([key], read) as stored:
            if key in stored:
                return stored[key]
            grounded = await judge.explained(prompt, answer, verdict)
            if grounded != verdict and not isinstance(grounded, Invalid):
                self._store.add_judgements({key: grounded})
        return grounded


def _place(record: Record) -> tuple[str, int]:
    return record.prompt.id, record.sample


def _shown(
    records: Sequence[Record], offenders: Sequence[Offender]
) -> Iterator[Record]:
    """The records that messages of gates show, then those on which judges disagree."""
    answers = answers_of(offenders, records)
    for offender in offenders:
        record = answers.get((offender.id, offender.answer))
        if record is not None:
            yield record
    for record in records:
        if is_disputed(record.votes):
            yield record
