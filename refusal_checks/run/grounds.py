"""The grounds of verdicts that reports show, from judges that give them only when asked.

Such grounds cost further requests, so they are asked for once it is known which answers count
against a gate, and while the engines are still up. They are stored like verdicts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from refusal_checks.core.records import Record, is_disputed
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.compare import Offender
from refusal_checks.gates.decide import Verdict
from refusal_checks.judges.base import gives_grounds, reasoned
from refusal_checks.models.spec import Attached
from refusal_checks.results.summary import Sampled, sample_for_reasons
from refusal_checks.run import decide
from refusal_checks.run.evaluate import prompts_at_once
from refusal_checks.run.prepare import Prepared
from refusal_checks.run.rationales import Afterwards, place

MOST = 20
"""Most answers of a benchmark that are asked about, where each costs several requests."""

MOST_REASONED = 200
"""Most answers of a benchmark, besides its sample, of which a judge is asked for its reasons."""


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
    shown = list(dict.fromkeys(map(place, _shown(run, benchmark, records)))) if is_shown else []
    drawn = (
        [place(record) for record in sample_for_reasons(benchmark, records)]
        if alone and is_shown
        else []
    )
    asking = Afterwards(
        run.parts.judges[benchmark], run.store, prompts_at_once(run.options), _up(run)
    )
    wanted = dict.fromkeys([*shown[: MOST_REASONED if alone else MOST], *drawn])
    costly = frozenset(shown[:MOST])
    known = {place(record): record for record in records}
    found = await asyncio.gather(
        *(asking.record(known[each], costly=each in costly) for each in wanted)
    )
    changed = dict(zip(wanted, found, strict=True))
    result = [changed.get(place(record), record) for record in records]
    if not alone:
        return Grounded(result, None)
    return Grounded(result, asking.sampled(records, [changed[each] for each in drawn]))


def _up(run: Prepared) -> Iterator[str]:
    """Names of the judges whose servers are up: attached, or started for verdicts."""
    if effort := run.summary.manifest.asked:
        yield from effort.judges
    if run.parts.engines.are_live:
        named = run.options.judges
        yield from (judge.name for judge in named if isinstance(judge.model, Attached))


def _shown(run: Prepared, benchmark: str, records: Sequence[Record]) -> Iterator[Record]:
    """The records that gates' messages show, then those on which judges disagree."""
    answers = {
        (record.prompt.id, record.completion.text): record
        for record in reversed(records)
        if record.completion and not isinstance(record.judgement, Invalid)
    }
    verdicts = decide.preview(run, benchmark, records).values()
    for offender in (each for verdict in verdicts for each in _offenders(verdict)):
        if record := answers.get((offender.id, offender.answer)):
            yield record
    yield from (record for record in records if is_disputed(record.votes))


def _offenders(verdict: Verdict) -> Iterator[Offender]:
    yield from verdict.offenders
    if compared := verdict.comparison:
        yield from (flip.now for flip in (*compared.fell, *compared.rose))
