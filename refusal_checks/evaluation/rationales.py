"""The reasons of verdicts that reports show, from judges that give them only when asked.

Such reasons cost further requests, so they are asked for once it is known which answers count
against a gate, and while the engines are still up. They are stored like verdicts.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
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
from refusal_checks.results.summary import Reasons, Sampled, sample_for_reasons

_VERSION = 1  # part of the key of stored grounds; raised when they are asked for in another way

MOST = (
    20  # answers of a benchmark that are asked about, where each costs several requests
)

MOST_REASONED = 200
"""Most answers of a benchmark, besides its sample, of which a judge is asked for its reasons."""

_Place = tuple[str, int]
"""A prompt's id and an answer's number."""


def _place(record: Record) -> _Place:
    return record.prompt.id, record.sample


def judges_up(
    asked: Iterable[str], judges: Iterable[NamedJudge], *, are_live: bool
) -> frozenset[str]:
    """Names of the judges whose servers are up: asked for verdicts, or attached and live."""
    attached = (judge.name for judge in judges if isinstance(judge.model, Attached))
    return frozenset((*asked, *(attached if are_live else ())))


class RationaleCollector:
    """Asks judges, where their servers are up, for the reasons of verdicts that they gave."""

    def __init__(
        self, judges: Sequence[Judge], store: Store, at_once: int, up: Iterable[str]
    ) -> None:
        self._judges = judges
        self._store = store
        self._saver = WriteBatcher(store)
        self._free = asyncio.Semaphore(at_once)
        self._up = frozenset(up)
        self._later = SingleFlight[Judgement | None]()
        self._said: list[tuple[_Place, bool | None]] = []
        """Whether reasons came with the same verdict; None if no reasons came."""

    async def benchmark(
        self,
        name: str,
        records: Sequence[Record],
        shown: Sequence[Offender],
        *,
        redacted: bool,
    ) -> tuple[Sequence[Record], Sampled | None]:
        """A benchmark's records, those that reports show and a sample with their judges' reasons.

        The sample is None where judges write their reasons with every verdict. Shown besides what
        verdicts show is what judges dispute; of redacted texts no reasons are asked for.
        """
        alone = any(judge.reasoned for judge in self._judges)
        places, drawn = list[_Place](), list[_Place]()
        if not redacted:
            places = list(dict.fromkeys(map(_place, _shown(records, shown))))
            drawn = (
                list(map(_place, sample_for_reasons(name, records))) if alone else []
            )
        wanted = dict.fromkeys([*places[: MOST_REASONED if alone else MOST], *drawn])
        costly = frozenset(places[:MOST])
        known = {_place(record): record for record in records}
        found = await asyncio.gather(
            *(self.record(known[each], costly=each in costly) for each in wanted)
        )
        changed = dict(zip(wanted, found, strict=True))
        fuller = [changed.get(_place(record), record) for record in records]
        if not alone:
            return fuller, None
        in_sample = frozenset(drawn)
        of_sample = [agrees for place, agrees in self._said if place in in_sample]
        agreed = [agrees for _, agrees in self._said]
        reasons = Reasons(
            answers=sum(isinstance(record.judgement, Binary) for record in records),
            asked=len({place for place, _ in self._said}),
            sampled=len(drawn),
            given=len(of_sample) - of_sample.count(None),
            agree=of_sample.count(True),
            missing=agreed.count(None),
            contradicted=agreed.count(False),
        )
        return fuller, Sampled(reasons, tuple(changed[each] for each in drawn))

    async def record(self, record: Record, *, costly: bool) -> Record:
        """The record with its judges' reasons; ``costly``: also those of several requests."""
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
            if (fuller := judge.reasoned) and isinstance(judgement, Binary):
                later = await self._reasons(judge, fuller, *shown)
                agrees = None
                if isinstance(later, Binary):
                    agrees = later.label is judgement.label
                    judgement = judgement.explained(later)
                self._said.append((_place(record), agrees))
                votes.append(Vote(name, judgement))
            elif costly and judge.gives_grounds:
                votes.append(Vote(name, await self._grounds(judge, *shown, judgement)))
            else:
                votes.append(Vote(name, judgement))
        judgement = cascade.decide(judges, votes)
        return replace(
            record, judgement=judgement, votes=tuple(votes) if record.votes else ()
        )

    async def _reasons(
        self, judge: Judge, fuller: Judge, prompt: Prompt, answer: Completion
    ) -> Judgement | None:
        """The verdict of the judge that writes its reasons, from the store if it has it.

        None if its server is not up, because nothing else is asked of it.
        """
        key = verdict_key(fuller, prompt, answer.text)

        async def ask() -> Judgement:
            async with self._free:
                try:
                    return await fuller.judge(prompt, answer)
                except InfrastructureError as fault:  # no reason to lose verdicts
                    return Invalid(Reason.JUDGE_ERROR, str(fault))

        async def work() -> Judgement | None:
            self._store.use([key])
            if judge.name not in self._up:
                return self._store.judgements([key]).get(key)
            return await self._saver.judged(key, ask)

        return await self._later.get(key, work)

    async def _grounds(
        self, judge: Judge, prompt: Prompt, answer: Completion, judgement: Judgement
    ) -> Judgement:
        """A judge's verdict with its grounds, from the store if it has them."""
        if isinstance(judgement, Invalid):
            return judgement
        key = content_key("grounds", _VERSION, verdict_key(judge, prompt, answer.text))
        self._store.use([key])
        async with self._saver.claimed(
            [key], partial(self._store.judgements, [key])
        ) as stored:
            found = stored.get(key) or await judge.explained(prompt, answer, judgement)
            if not stored and found != judgement and not isinstance(found, Invalid):
                self._store.add_judgements({key: found})
        return found


def _shown(
    records: Sequence[Record], offenders: Sequence[Offender]
) -> Iterator[Record]:
    """The records that gates' messages show, then those on which judges disagree."""
    answers = answers_of(offenders, records)
    for offender in offenders:
        if record := answers.get((offender.id, offender.answer)):
            yield record
    yield from (record for record in records if is_disputed(record.votes))
