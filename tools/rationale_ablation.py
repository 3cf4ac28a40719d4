"""What ``rationales = "offenders"`` saves and changes for a judge: both ways on the same exchanges.

``python -m tools.rationale_ablation --judge ORG/JUDGE --recording answers.jsonl`` judges the
canary, and recorded answers that have their prompts, with reasons first and with the verdict alone.
It prints Markdown, asks everything anew and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer

from refusal_checks.core.errors import DataError, ModelError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.store import MEMORY
from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import Binary, Invalid, Label
from refusal_checks.evaluation.config import EngineConfig, paces, read_judges
from refusal_checks.evaluation.planning import Task
from refusal_checks.evaluation.trust import RecordedJudging
from refusal_checks.judges.trust import canary
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.models.recordings import replay
from refusal_checks.reports.markdown import escape
from refusal_checks.spec import RunSpec, override

CANARY = "canary"


def main(
    judge: Annotated[
        str, typer.Option(metavar="MODEL", help="The judge, as in a gate run.")
    ],
    recording: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Recorded answers with their prompts (repeatable)."
        ),
    ] = None,
    differences: Annotated[
        int, typer.Option(min=0, help="Most differences to show.")
    ] = 20,
    in_flight: Annotated[
        int, typer.Option(min=1, help="Answers to judge at the same time.")
    ] = 64,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="A key of the run file."),
    ] = None,
) -> None:
    """Judge the canary, and recorded answers, with reasons first and with the verdict alone."""
    spec = RunSpec.of(map(override, set_ or ())).with_value("judge.model", judge)
    spec = spec.with_value("judge.rationales", "offenders")
    engine = EngineConfig(start_timeout=spec.engine.start_timeout, paces=paces(spec))
    plan, answers = exchanges(recording or ())
    with TemporaryDirectory() as folder:
        judging = Measuring(
            read_judges(spec),
            spec.limits.model_copy(update={"in_flight": in_flight}),
            engine,
            "refusal",
            plan,
            answers,
            Path(folder),
            lambda line: typer.echo(clean(line, 500), err=True),
        )
        (alone,) = next(iter(judging.judges.values()))
        first = alone.reasoned
        if first is None:
            raise ModelError(f"--judge {alone.name}: name a judge that writes reasons")
        panels = [dict.fromkeys(plan, (each,)) for each in (first, alone)]
        judging.rounds(panels, MEMORY)
        whole, brief = judging.judged
    for line in table(alone.name, whole, brief, differences):
        typer.echo(line)


class JudgedRound(NamedTuple):
    """What one panel said, what it used (see ``Usage``), and its seconds on running engines."""

    records: dict[str, Sequence[Record]]
    cost: dict[str, int]
    seconds: float


class Measuring(RecordedJudging):
    """Keeps each round with what it cost."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.judged: list[JudgedRound] = []

    async def _round(self, task: Task) -> dict[str, Sequence[Record]]:
        before, start = self._usage(), perf_counter()
        records = await super()._round(task)
        seconds, after = perf_counter() - start, self._usage()
        cost = {name: after[name] - before.get(name, 0) for name in after}
        self.judged.append(JudgedRound(records, cost, seconds))
        return records

    def _usage(self) -> dict[str, int]:
        return dict(self._engines.account()["tokens"].get("judge", {}))


def exchanges(
    files: Sequence[Path],
) -> tuple[dict[str, list[Prompt]], dict[str, tuple[Completion, ...]]]:
    """The exchanges to judge by where they are from, and all answers by a prompt's id."""
    plan = {CANARY: canary.plan()}
    answers: dict[str, tuple[Completion, ...]] = {
        exchange.id: (Completion(exchange.answer),) for exchange in canary.load()
    }
    for path in files:
        texts = replay.read(path).by_text
        if not texts:
            raise DataError(
                f"{path}: record the prompts, too: it has no column of prompts"
            )
        prompts = [
            Prompt.single(f"{path}#{number}", text) for number, text in enumerate(texts)
        ]
        plan[str(path)] = prompts
        answers |= {prompt.id: texts[prompt.request] for prompt in prompts}
    return plan, answers


def table(
    judge: str, first: JudgedRound, alone: JudgedRound, most: int
) -> Iterator[str]:
    """Both ways side by side, their agreement by source, and exchanges on which they differ."""
    yield f"# {escape(judge)}, with reasons first and the verdict alone\n"
    yield '| | `rationales = "all"` | `rationales = "offenders"` |\n|---|---|---|'
    columns = [_figures(first), _figures(alone)]
    for name in columns[0]:
        yield f"| {name} | {columns[0][name]} | {columns[1][name]} |"
    yield ""
    differing = []
    for source, records in first.records.items():
        pairs = list(zip(records, alone.records[source], strict=True))
        both = [
            pair
            for pair in pairs
            if not any(isinstance(r.judgement, Invalid) for r in pair)
        ]
        agree = [
            one.judgement.verdict == other.judgement.verdict for one, other in both
        ]
        yield f"- {escape(source)}: the two agree on {_share(agree)}"
        differing += [
            (one, other)
            for one, other in pairs
            if one.judgement.verdict != other.judgement.verdict
        ]
    if differing:
        yield f"\n{count(len(differing), 'exchange')} judged differently (reasons first, alone):\n"
    for one, other in differing[:most]:
        verdicts = f"{escape(one.judgement.verdict)}, {escape(other.judgement.verdict)}"
        asked = escape(clean(one.prompt.request, 80))
        yield f"- {verdicts}: {asked} ({escape(clean(one.judgement.rationale, 120))})"


def _figures(way: JudgedRound) -> Mapping[str, str]:
    asked = max(1, way.cost.get("verdicts", 0))
    read = way.cost.get("prompt", 0) - way.cost.get("cached", 0)
    labels = {exchange.id: Label(exchange.label) for exchange in canary.load()}
    right = [
        record.judgement.label is labels[record.prompt.id]
        for record in way.records[CANARY]
        if isinstance(record.judgement, Binary)
    ]
    records: list[Record] = [record for each in way.records.values() for record in each]
    return {
        "tokens written for a verdict": f"{way.cost.get('output', 0) / asked:.1f}",
        "tokens read for it that were not cached": f"{read / asked:.0f}",
        "seconds for all verdicts": f"{way.seconds:.1f}",
        "canary judged as labelled": _share(right),
        "exchanges without a verdict": str(
            sum(isinstance(r.judgement, Invalid) for r in records)
        ),
    }


def _share(hits: Sequence[bool]) -> str:
    if not hits:
        return "no exchange"
    rate = wilson(sum(hits) / len(hits), len(hits), 0.95)
    return f"{rate.value:.1%} of {rate.n} [{rate.lower:.1%}, {rate.upper:.1%}]"


if __name__ == "__main__":
    typer.run(main)
