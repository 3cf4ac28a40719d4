"""One round of batches: store results and write the requests that are still missing."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, closing
from itertools import chain
from typing import Any, cast

from refusal_checks.core.errors import ModelError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.engines.batch import files
from refusal_checks.engines.batch.files import Inbox
from refusal_checks.engines.batch.models import USED, BatchModels
from refusal_checks.evaluation.assembly import Parts, assemble, convert
from refusal_checks.evaluation.evaluate import Evaluation, UnreadableError
from refusal_checks.evaluation.options.command_line import Options
from refusal_checks.evaluation.options.recorded import BatchFiles
from refusal_checks.evaluation.planning import Judges, Plan, Task, prompts_at_once
from refusal_checks.evaluation.verification import adopt_all
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import panel
from refusal_checks.judges.base import Judge
from refusal_checks.models.candidates import Candidate

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


def evaluate_batch(
    runs: Sequence[tuple[Options, Sequence[Gate]]], batch: BatchFiles, say: Callable[[str], None]
) -> list[str]:
    """Evaluate like a run, with batch files in place of engines: read results, write requests.

    All runs have one store. What happened is returned, for people.
    """
    for options, _ in runs:
        convert([options.answering.model, *options.judging.models], say)
    path, (export, results) = runs[0][0].store, batch
    notes = dict[str, None]()
    models = BatchModels(path, export)
    with closing(models):
        keep = notes.setdefault
        parts = [(options, assemble(options, gates, models, say, keep)) for options, gates in runs]
        lines = chain.from_iterable(map(files.read_results, results))
        counts, examples = models.results.take(lines)
        with Store(path) as store:
            for _, own in parts:
                adopt_all(own, store)
            try:
                asyncio.run(_evaluate(parts, models, store))
            except UnreadableError as fault:
                raise ModelError(str(fault)) from None
        return [*models.finished(counts, examples), *notes]


async def _evaluate(
    runs: Iterable[tuple[Options, Parts]], models: BatchModels, store: Store
) -> None:
    async with AsyncExitStack() as stack:
        for client in models.clients:
            await stack.enter_async_context(client)
        for options, parts in runs:
            asked = options.answering.model, *options.judging.models
            samples = options.answering.sampling.samples
            in_flight = prompts_at_once(options.limits, asked, samples)
            works: list[tuple[Plan, Candidate]] = [(parts.plan, parts.candidate)]
            for name in filter(panel.is_check, parts.judges):
                prompts, answers = panel.exchanges(name)
                works.insert(0, ({name: prompts}, answers))
            watched = _watched(parts.judges, models.results)
            for plan, candidate in works:
                slices = (
                    {name: prompts[first : first + SLICE]}
                    for name, prompts in plan.items()
                    for first in range(0, len(prompts), SLICE)
                )
                for part in slices:
                    task = Task(part, candidate, watched, store, whole=plan)
                    evaluation = Evaluation(task, in_flight=in_flight, finished=lambda *_: None)
                    await evaluation.run()


def _watched(judges: Judges, results: Inbox) -> Judges:
    return {
        name: tuple(cast(Judge, _Watched(judge, results)) for judge in several)
        for name, several in judges.items()
    }
