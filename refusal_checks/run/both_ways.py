"""A judge's verdicts with its reasons first and without them, on the same recorded exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from refusal_checks.core.errors import DataError, ModelError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Invalid, Label
from refusal_checks.judges.base import Judge, reasoned
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.both_ways import BothWays, Difference, Way
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.models.recordings import replay
from refusal_checks.models.recordings.replay import Recording, ReplayCandidate
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.trust import RecordedJudging, Round

CANARY = "canary"
"""Where the exchanges of the canary are from."""


def measure(
    files: Sequence[Path], options: Options, folder: Path, say: Callable[[str], None]
) -> BothWays:
    """Judge the canary, and the answers of recordings, in both ways.

    Args:
        options: with one judge and ``rationales`` offenders; nothing stored is used.
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        UserError: the judge or a file cannot be used.
        EngineStartError, EngineDiedError, EndpointError: the judge's server is not there.
    """
    plan, candidate = _exchanges(files)
    judging = RecordedJudging(options, "refusal", plan, candidate, folder, say)
    (alone,) = next(iter(judging.judges.values()))
    whole = _whole(alone)
    panels = [dict.fromkeys(plan, (each,)) for each in (whole, alone)]
    first, second = judging.rounds(panels)
    pairs = {
        name: list(zip(first.records[name], second.records[name], strict=True)) for name in plan
    }
    return BothWays(
        alone.name,
        _way(first, options.confidence),
        _way(second, options.confidence),
        {name: _agreement(each, options.confidence) for name, each in pairs.items()},
        tuple(
            Difference(
                name,
                one.prompt.request,
                one.judgement.verdict,
                other.judgement.verdict,
                one.judgement.rationale,
            )
            for name, each in pairs.items()
            for one, other in each
            if one.judgement.verdict != other.judgement.verdict
        ),
    )


def _whole(alone: Judge) -> Judge:
    found = reasoned(alone)
    if found is None:
        raise ModelError(
            f"--judge {alone.name}: name a judge that writes reasons: its verdicts have none that "
            "could be left out"
        )
    return found


def _exchanges(files: Sequence[Path]) -> tuple[dict[str, list[Prompt]], ReplayCandidate]:
    """The exchanges to judge by where they are from, and who answers all of them."""
    answers: dict[str, tuple[Completion, ...]] = {
        exchange.id: (Completion(exchange.answer),) for exchange in canary.load()
    }
    plan = {CANARY: canary.plan()}
    for path in files:
        texts = replay.read(path).by_text
        if not texts:
            raise DataError(f"{path}: record the prompts, too: it has no column of prompts")
        prompts = [Prompt.single(f"{path}#{number}", text) for number, text in enumerate(texts)]
        plan[str(path)] = prompts
        answers |= {prompt.id: texts[prompt.request] for prompt in prompts}
    return plan, ReplayCandidate("recorded answers", Recording(Path(), answers, {}, {}))


def _way(done: Round, level: float) -> Way:
    asked = max(1, done.cost.get("verdicts", 0))
    records = [record for each in done.records.values() for record in each]
    labels = {exchange.id: exchange.label for exchange in canary.load()}
    right = [
        record.judgement.label == Label(labels[record.prompt.id])
        for record in done.records[CANARY]
        if isinstance(record.judgement, Binary)
    ]
    read = done.cost.get("prompt", 0) - done.cost.get("cached", 0)
    return Way(
        written=done.cost.get("output", 0) / asked,
        read=read / asked,
        seconds=done.seconds,
        correct=_share(right, level),
        invalid=sum(isinstance(record.judgement, Invalid) for record in records),
    )


def _agreement(pairs: Sequence[tuple[Record, Record]], level: float) -> Estimate | None:
    judged = [(one.judgement, other.judgement) for one, other in pairs]
    both = [each for each in judged if not any(isinstance(one, Invalid) for one in each)]
    return _share([one.verdict == other.verdict for one, other in both], level)


def _share(hits: Sequence[bool], level: float) -> Estimate | None:
    return wilson(sum(hits) / len(hits), len(hits), level) if hits else None
