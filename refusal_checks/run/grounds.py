"""The grounds of verdicts that reports show, from judges that give them only when asked.

Such grounds cost further requests, so they are asked for once it is known which answers count
against a gate, and while the engines are still up. They are stored like verdicts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from refusal_checks.benchmarks.attacked import as_judged
from refusal_checks.core.keys import content_key
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.core.votes import is_disputed
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges import cascade
from refusal_checks.judges.base import Judge, explained, gives_grounds
from refusal_checks.run import publish
from refusal_checks.run.plan import verdict_key
from refusal_checks.run.prepare import Prepared

MOST = 20
"""Most answers of a benchmark that are asked about."""

_VERSION = 1
"""Part of the key of stored grounds: raise it when judges are asked for them in another way."""


def can_be_asked(run: Prepared, benchmark: str) -> bool:
    """True if a judge of a benchmark gives grounds when asked, and reports show them."""
    judges = run.parts.judges[benchmark]
    return any(map(gives_grounds, judges)) and not run.redaction.wanted


async def added(run: Prepared, benchmark: str, records: Sequence[Record]) -> list[Record]:
    """A benchmark's records, those that reports show with their judges' grounds.

    Raises:
        EngineDiedError: a judge's engine has ended.
        StoreError: the store cannot be read or written.
    """
    shown = list(dict.fromkeys(map(_place, _shown(run, benchmark, records))))[:MOST]
    known = {_place(record): record for record in records}
    found = await asyncio.gather(*(_with_grounds(run, benchmark, known[each]) for each in shown))
    changed = dict(zip(shown, found, strict=True))
    return [changed.get(_place(record), record) for record in records]


def _place(record: Record) -> tuple[str, int]:
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


async def _with_grounds(run: Prepared, benchmark: str, record: Record) -> Record:
    """The record with each judge's grounds."""
    judges, answer = run.parts.judges[benchmark], record.completion
    assert answer, "there is an answer to judge"
    given = {vote.judge: vote.judgement for vote in record.votes}
    if not given:  # of one judge, or of a cascade's first
        formed = cascade.of(judges)
        given = {(formed.first if formed else judges[0]).name: record.judgement}
    shown = as_judged(record.prompt, answer)
    asked = {judge.name: judge for judge in judges}
    votes = [
        Vote(name, await _grounds(run, asked[name], *shown, judgement))
        for name, judgement in given.items()
    ]
    judgement = cascade.decide(judges, votes)
    return replace(record, judgement=judgement, votes=tuple(votes) if record.votes else ())


async def _grounds(
    run: Prepared, judge: Judge, prompt: Prompt, answer: Completion, judgement: Judgement
) -> Judgement:
    """A judge's verdict with its grounds, from the store if it has them."""
    if not gives_grounds(judge) or isinstance(judgement, Invalid):
        return judgement
    key = content_key("grounds", _VERSION, verdict_key(judge, prompt, answer.text))
    if stored := run.store.judgements([key]):
        run.store.use([key])
        return stored[key]
    found = await explained(judge, prompt, answer, judgement)
    if found != judgement and not isinstance(found, Invalid):
        run.store.add_judgements({key: found})
    return found
