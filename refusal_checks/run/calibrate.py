"""Measure judges against human labels: judge the labelled answers, compare the verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from refusal_checks.benchmarks import discover
from refusal_checks.core.records import Record
from refusal_checks.core.store import MEMORY, Store
from refusal_checks.core.verdicts import Judgement
from refusal_checks.engines.pool import Engines
from refusal_checks.judges.panel import Way
from refusal_checks.judges.trust.label_files import LabelFile
from refusal_checks.judges.trust.measured import MeasuredJudge, compared
from refusal_checks.judges.trust.scale import Scale
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.recordings.replay import Recording, ReplayCandidate
from refusal_checks.run.assembly import convert, judge_panels, pool_settings
from refusal_checks.run.concurrency import prompts_at_once
from refusal_checks.run.evaluate import Evaluation
from refusal_checks.run.judge_check import identify, identify_panel
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.plan import Judges, Plan, Task, pending


def measure(
    files: Sequence[LabelFile],
    options: Options,
    scale: Scale,
    folder: Path,
    say: Callable[[str], None],
) -> list[MeasuredJudge]:
    """Measure the judges that the options name, each alone and, if several, together.

    Args:
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        UserError: a judge cannot be used, or a human label is unknown.
        EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
    """
    labelled = [(file, answer) for file in files for answer in file.answers]
    for file, answer in labelled:
        scale.human(file, answer)  # an unknown label ends this before an engine starts
    plan = {
        file.candidate: [answer.as_prompt(file.candidate) for answer in file.answers]
        for file in files
    }
    judging = RecordedJudging(options, scale.name, plan, _candidate(files), folder, say)
    by_candidate = judging.run()
    records = [record for file in files for record in by_candidate[file.candidate]]
    panel = next(iter(judging.judges.values()))
    parts = [identify(judge, options) for judge in panel]
    votes = {part: [_vote(record, part.name) for record in records] for part in parts}
    if len(parts) > 1:
        votes[identify_panel(panel, options)] = [record.judgement for record in records]
    return [
        MeasuredJudge(
            judge,
            tuple(
                compared(file, answer, judgement, scale)
                for (file, answer), judgement in zip(labelled, judgements, strict=True)
            ),
        )
        for judge, judgements in votes.items()
    ]


def _candidate(files: Iterable[LabelFile]) -> ReplayCandidate:
    answers = {
        answer.as_prompt(file.candidate).id: (answer.completion,)
        for file in files
        for answer in file.answers
    }
    return ReplayCandidate("recorded answers", Recording(Path(), answers, {}, {}))


def _vote(record: Record, judge: str) -> Judgement:
    """One judge's judgement; a judge who was alone left no vote."""
    votes = {vote.judge: vote.judgement for vote in record.votes}
    return votes.get(judge, record.judgement)


class Round(NamedTuple):
    """What one panel said of recorded answers, and its cost.

    Attributes:
        records: by the plan's names, in the plan's order.
        cost: the fields of ``usage.Usage``.
        seconds: without the start of engines.
    """

    records: dict[str, Sequence[Record]]
    cost: dict[str, int]
    seconds: float


class RecordedJudging:
    """Run judges over recorded answers.

    Args:
        kind: the way of judging, a module of ``judges.kinds``.
        candidate: gives the recorded answers.
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        ModelError: a judge, or its prompt, cannot be used; nothing has been started then.
    """

    def __init__(
        self,
        options: Options,
        kind: str,
        plan: Plan,
        candidate: Candidate,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._plan = plan
        self._candidate = candidate
        self._say = say
        convert(options, say)
        self._engines = Engines(pool_settings(options), folder)
        guides = {each.judge: each.category_guide for each in discover().values()}
        way = Way(kind, category_guide=guides.get(kind))
        self.judges: Judges = judge_panels(options, dict.fromkeys(plan, way), self._engines, say)

    def run(self) -> dict[str, Sequence[Record]]:
        """The records by the plan's names, in the plan's order.

        Raises:
            EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
        """
        (only,) = self.rounds([self.judges])
        return only.records

    def rounds(self, several: Sequence[Judges]) -> list[Round]:
        """The same answers read by several panels, one after the other, on the same engines.

        Args:
            several: panels by the plan's names; their models are those of the options.

        Raises:
            EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
        """
        options = self._options
        with Store(MEMORY if options.fresh else options.store) as store:
            todos = [pending(Task(self._plan, self._candidate, each, store)) for each in several]
            names = frozenset[str]().union(*(todo.judges for todo in todos))
            asked = [judge.model for judge in options.judges if judge.name in names]
            self._say(f"{sum(todo.verdicts for todo in todos)} verdicts to ask for at most")
            try:
                self._engines.place(asked)
                self._engines.start(self._say)
                return asyncio.run(self._evaluate(store, several))
            finally:
                self._engines.stop()

    async def _evaluate(self, store: Store, several: Sequence[Judges]) -> list[Round]:
        async with AsyncExitStack() as stack:
            for client in self._engines.clients:
                await stack.enter_async_context(client)
            return [await self._round(Task(self._plan, self._candidate, each, store))
                    for each in several]  # fmt: skip

    async def _round(self, task: Task) -> Round:
        records: dict[str, Sequence[Record]] = {}

        def evaluation() -> Coroutine[None, None, None]:
            return Evaluation(
                task, in_flight=prompts_at_once(self._options), finished=records.__setitem__
            ).run()

        before, start = self._usage(), perf_counter()
        await self._engines.guard(evaluation, self._say)
        seconds, after = perf_counter() - start, self._usage()
        cost = {name: after[name] - before.get(name, 0) for name in after}
        return Round({name: records[name] for name in self._plan}, cost, seconds)

    def _usage(self) -> dict[str, int]:
        return dict(self._engines.account()["tokens"].get("judge", {}))
