"""The grounds of verdicts that reports show, from judges that give them only when asked.

Such grounds cost further requests, so they are asked for once it is known which answers count
against a gate, and while the engines are still up. They are stored like verdicts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from refusal_checks.benchmarks.attacked import as_judged
from refusal_checks.core.errors import InfrastructureError, StoreError
from refusal_checks.core.keys import content_key
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Reason
from refusal_checks.core.votes import is_disputed
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges import cascade
from refusal_checks.judges.base import Judge, explained, gives_grounds, reasoned
from refusal_checks.results.reasons import Reasons, Sampled, sample
from refusal_checks.run import publish
from refusal_checks.run.concurrency import prompts_at_once
from refusal_checks.run.plan import verdict_key
from refusal_checks.run.prepare import Prepared
from refusal_checks.run.saver import Saver

MOST = 20
"""Most answers of a benchmark that are asked about, where each costs several requests."""

MOST_REASONED = 200
"""Most answers of a benchmark, besides its sample, of which a judge is asked for its reasons."""

_VERSION = 1
"""Part of the key of stored grounds: raise it when judges are asked for them in another way."""

_Place = tuple[str, int]


def can_be_asked(run: Prepared, benchmark: str) -> bool:
    """True if a judge of a benchmark gives grounds when asked, and reports show them."""
    judges = run.parts.judges[benchmark]
    return any(map(reasoned, judges)) or (
        any(map(gives_grounds, judges)) and not run.redaction.wanted
    )


class Grounded(NamedTuple):
    """A benchmark's records with grounds.

    Attributes:
        sampled: a sample of them; None where judges write their reasons with every verdict.
    """

    records: list[Record]
    sampled: Sampled | None


async def added(run: Prepared, benchmark: str, records: Sequence[Record]) -> Grounded:
    """A benchmark's records, those that reports show with their judges' grounds.

    Without texts, none are asked for.

    Raises:
        StoreError: the store cannot be read or written.
    """
    alone = any(map(reasoned, run.parts.judges[benchmark]))
    is_shown = not run.redaction.wanted
    shown = list(dict.fromkeys(map(_place, _shown(run, benchmark, records)))) if is_shown else []
    drawn = [_place(record) for record in sample(benchmark, records)] if alone and is_shown else []
    asking = _Asking(run, benchmark)
    wanted = dict.fromkeys([*shown[: MOST_REASONED if alone else MOST], *drawn])
    costly = frozenset(shown[:MOST])
    known = {_place(record): record for record in records}
    found = await asyncio.gather(
        *(asking.record(known[each], costly=each in costly) for each in wanted)
    )
    changed = dict(zip(wanted, found, strict=True))
    result = [changed.get(_place(record), record) for record in records]
    if not alone:
        return Grounded(result, None)
    return Grounded(result, asking.sampled(records, [changed[each] for each in drawn]))


def _place(record: Record) -> _Place:
    return record.prompt.id, record.sample


def _shown(run: Prepared, benchmark: str, records: Sequence[Record]) -> Iterator[Record]:
    """The records that gates' messages show, then those on which judges disagree."""
    answers = {
        (record.prompt.id, record.completion.text): record
        for record in reversed(records)
        if record.completion and not isinstance(record.judgement, Invalid)
    }
    verdicts = publish.preview(run, benchmark, records).values()
    for offender in (each for verdict in verdicts for each in _offenders(verdict)):
        if record := answers.get((offender.id, offender.answer)):
            yield record
    yield from (record for record in records if is_disputed(record.votes))


def _offenders(verdict: Verdict) -> Iterator[Offender]:
    yield from verdict.offenders
    if compared := verdict.comparison:
        yield from (flip.now for flip in (*compared.fell, *compared.rose))


@dataclass
class _Said:
    """What a judge said of one answer when its reasons were wanted; None if it was not asked."""

    place: _Place
    alone: Binary
    later: Judgement | None

    @property
    def agrees(self) -> bool:
        """True if its reasons come with the same verdict."""
        return isinstance(self.later, Binary) and self.later.label is self.alone.label


@dataclass
class _Asking:
    """Asks a benchmark's judges for the grounds of verdicts that they gave."""

    run: Prepared
    benchmark: str
    said: list[_Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        run = self.run
        self._judges = run.parts.judges[self.benchmark]
        self._saver = Saver(run.store)
        self._free = asyncio.Semaphore(prompts_at_once(run.options))
        self._later: dict[str, asyncio.Task[Judgement | None]] = {}
        effort = run.summary.manifest.asked
        self._up = frozenset(effort.judges if effort else ())

    async def record(self, record: Record, *, costly: bool) -> Record:
        """The record with each judge's grounds.

        Args:
            costly: also those that take several requests.
        """
        judges, answer = self._judges, record.completion
        assert answer, "there is an answer to judge"
        given = {vote.judge: vote.judgement for vote in record.votes}
        if not given:  # of one judge, or of a cascade's first
            formed = cascade.of(judges)
            given = {(formed.first if formed else judges[0]).name: record.judgement}
        shown = as_judged(record.prompt, answer)
        asked = {judge.name: judge for judge in judges}
        votes = []
        for name, judgement in given.items():
            judge = asked[name]
            if (fuller := reasoned(judge)) and isinstance(judgement, Binary):
                later = await self._once(judge, fuller, *shown)
                self.said.append(_Said(_place(record), judgement, later))
                known = judgement.explained(later) if isinstance(later, Binary) else judgement
                votes.append(Vote(name, known))
            elif costly and gives_grounds(judge):
                votes.append(Vote(name, await self._grounds(judge, *shown, judgement)))
            else:
                votes.append(Vote(name, judgement))
        judgement = cascade.decide(judges, votes)
        return replace(record, judgement=judgement, votes=tuple(votes) if record.votes else ())

    def sampled(self, records: Sequence[Record], drawn: Sequence[Record]) -> Sampled:
        """What a sample tells, of which everything was asked.

        Args:
            records: all of the benchmark.
        """
        places = frozenset(map(_place, drawn))
        given = [each for each in self.said if isinstance(each.later, Binary)]
        agree = [each for each in given if each.agrees]
        reasons = Reasons(
            answers=sum(isinstance(record.judgement, Binary) for record in records),
            asked=len({each.place for each in self.said}),
            sampled=len(drawn),
            given=sum(each.place in places for each in given),
            agree=sum(each.place in places for each in agree),
            missing=len(self.said) - len(given),
            contradicted=len(given) - len(agree),
        )
        return Sampled(reasons, tuple(drawn))

    async def _once(
        self, judge: Judge, fuller: Judge, prompt: Prompt, answer: Completion
    ) -> Judgement | None:
        """The verdict with reasons on an answer, which equal answers share."""
        key = verdict_key(fuller, prompt, answer.text)
        if key not in self._later:
            work = self._reasons(key, judge, fuller, prompt, answer)
            self._later[key] = asyncio.create_task(work)
        return await self._later[key]

    async def _reasons(
        self, key: str, judge: Judge, fuller: Judge, prompt: Prompt, answer: Completion
    ) -> Judgement | None:
        """The verdict of the judge that writes its reasons, from the store if it has it.

        None if its server need not be up, because nothing else was asked of it.
        """
        run = self.run
        if stored := run.store.judgements([key]):
            run.store.use([key])
            return stored[key]
        if judge.name not in self._up:
            return None
        async with self._free:
            try:
                found = await fuller.judge(prompt, answer)
            except StoreError:
                raise
            except InfrastructureError as fault:  # no reason to lose verdicts
                return Invalid(Reason.JUDGE_ERROR, str(fault))
        if not isinstance(found, Invalid):
            await self._saver.judgement(key, found)
        return found

    async def _grounds(
        self, judge: Judge, prompt: Prompt, answer: Completion, judgement: Judgement
    ) -> Judgement:
        """A judge's verdict with its grounds, from the store if it has them."""
        if isinstance(judgement, Invalid):
            return judgement
        store = self.run.store
        key = content_key("grounds", _VERSION, verdict_key(judge, prompt, answer.text))
        if stored := store.judgements([key]):
            store.use([key])
            return stored[key]
        found = await explained(judge, prompt, answer, judgement)
        if found != judgement and not isinstance(found, Invalid):
            store.add_judgements({key: found})
        return found
