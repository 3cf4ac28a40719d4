"""One round of batches: store results and write the requests that are still missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any, cast

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.engines.batch import files
from refusal_checks.engines.batch.files import Inbox
from refusal_checks.engines.batch.models import USED, BatchModels
from refusal_checks.gates.gate import Gate
from refusal_checks.judges.base import Judge
from refusal_checks.judges.trust import canary
from refusal_checks.models.candidates import Candidate
from refusal_checks.run.assembly import Parts, assemble, convert
from refusal_checks.run.evaluate import Evaluation, Judges, Plan, Task, prompts_at_once
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.options.recorded import BatchFiles

SLICE = 2000
"""Prompts that are evaluated together, which bounds the answers in memory."""


class _Watched:
    """A judge whose results are kept if they make no verdict."""

    def __init__(self, judge: Judge, results: Inbox) -> None:
        self._judge = judge
        self._results = results

    def __getattr__(self, name: str) -> Any:
        """All else is the judge's: keys of verdicts depend on it, by which a run finds them."""
        return getattr(self._judge, name)

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        used: list[str] = []
        USED.set(used)
        judgement = await self._judge.judge(prompt, completion)
        if isinstance(judgement, Invalid):
            self._results.keep(used)
        return judgement


class BatchRound:
    """Evaluates like a run, with batch files instead of engines.

    Args:
        runs: the options and the selected gates of each; all have one store.
        say: shows one line to the user.
    """

    def __init__(
        self,
        runs: Sequence[tuple[Options, Sequence[Gate]]],
        batch: BatchFiles,
        say: Callable[[str], None],
    ) -> None:
        self._runs = runs
        self._store = runs[0][0].store
        self._batch = batch
        self._say = say
        self._notes: dict[str, None] = {}

    def run(self) -> list[str]:
        """Import results and write the requests that are missing; what happened, for people."""
        for options, _ in self._runs:
            convert([options.answering.model, *options.judging.models], self._say)
        models = BatchModels(self._store, self._batch.export)
        try:
            return self._run(models)
        finally:
            models.close()

    def _run(self, models: BatchModels) -> list[str]:
        parts = [
            (options, assemble(options, gates, models, self._say, self._note))
            for options, gates in self._runs
        ]
        lines = chain.from_iterable(map(files.read_results, self._batch.results))
        counts, examples = models.results.take(lines)
        with Store(self._store) as store:
            asyncio.run(self._evaluate(parts, models, store))
        return [*models.finished(counts, examples), *self._notes]

    def _note(self, line: str) -> None:
        self._notes[line] = None

    async def _evaluate(
        self, parts: Iterable[tuple[Options, Parts]], models: BatchModels, store: Store
    ) -> None:
        async with AsyncExitStack() as stack:
            for client in models.clients:
                await stack.enter_async_context(client)
            for options, each in parts:
                asked = options.answering.model, *options.judging.models
                samples = options.answering.sampling.samples
                in_flight = prompts_at_once(options.limits, asked, samples)
                for plan, candidate, judges in _works(each):
                    watched = _watched(judges, models.results)
                    for part in _slices(plan):
                        task = Task(part, candidate, watched, store, whole=plan)
                        evaluation = Evaluation(task, in_flight=in_flight, finished=lambda *_: None)
                        await evaluation.run()


def _works(parts: Parts) -> Iterator[tuple[Plan, Candidate, Judges]]:
    if canary.NAME in parts.judges:
        yield {canary.NAME: canary.plan()}, canary.candidate(), parts.judges
    for judges in (*parts.repeats, parts.judges):
        yield parts.plan, parts.candidate, judges


def _watched(judges: Judges, results: Inbox) -> Judges:
    return {
        name: tuple(cast(Judge, _Watched(judge, results)) for judge in panel)
        for name, panel in judges.items()
    }


def _slices(plan: Plan) -> Iterator[Plan]:
    for name, prompts in plan.items():
        for first in range(0, len(prompts), SLICE):
            yield {name: prompts[first : first + SLICE]}
