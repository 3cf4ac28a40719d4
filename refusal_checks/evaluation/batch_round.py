"""One round of batches: store results and write the requests that are still missing."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from itertools import chain
from pathlib import Path
from typing import Any, cast

from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.files import permitted, why_no_file
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.engines.batch import inbox
from refusal_checks.engines.batch.batch_models import USED, BatchModels
from refusal_checks.engines.batch.inbox import Inbox
from refusal_checks.evaluation.assembly import Assembly, assemble, convert
from refusal_checks.evaluation.config import Folders, RunConfig
from refusal_checks.evaluation.configure import configure
from refusal_checks.evaluation.planning import Judges, Plan, Task, prompts_at_once
from refusal_checks.evaluation.stream import Evaluation
from refusal_checks.evaluation.verification import adopt_all
from refusal_checks.evaluation.voting import UnreadableError
from refusal_checks.judges import panel
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.trust import canary
from refusal_checks.models.candidates import Candidate
from refusal_checks.results.events import Listener, Notice
from refusal_checks.spec import RunSpec

SLICE = 2000
"""Number of prompts evaluated together, which bounds the answers in memory."""


class _Watched:
    """A judge that keeps batch results from which no verdict could be read."""

    def __init__(self, judge: Judge, results: Inbox) -> None:
        self._judge = judge
        self._results = results

    def __getattr__(self, name: str) -> Any:
        """Delegate to the judge: keys of verdicts depend on its attributes."""
        return getattr(self._judge, name)

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        used: list[str] = []
        USED.set(used)
        judgement = await self._judge.judge(prompt, completion)
        if isinstance(judgement, Invalid):
            self._results.keep(used)
        return judgement


@permitted()
def evaluate_batch(
    spec: RunSpec,
    kept: Folders,
    gates: Mapping[str, Collection[str]],
    export: Path | None,
    results: Sequence[Path],
    on_event: Listener,
) -> list[str]:
    """Evaluate with batch files in place of engines: read results, write pending requests.

    All candidates share one store. Returns lines that say what happened.

    Args:
        gates: ids of the gates to ask for, by candidate.
        export: the file to write pending requests to; None for none.
        results: files with results of earlier requests.

    Raises:
        UserError: the spec or one of the files is wrong.
    """
    _require_files(spec, export, results)

    def say(line: str) -> None:
        on_event(Notice(line))

    notes: list[str] = []

    def note(line: str) -> None:
        if line not in notes:  # each candidate may have the same judges to speak of
            notes.append(line)

    configs = [
        config for config in configure(spec, kept) if config.answering.title in gates
    ]
    for config in configs:
        convert(config.models, say)
    store_file = configs[0].store
    models = BatchModels(store_file, export)
    with closing(models):
        runs = []
        for config in configs:
            ids = gates[config.answering.title]
            selected = [gate for gate in spec.gates if gate.id in ids]
            runs.append((config, assemble(config, selected, models, say, note)))
        lines = chain.from_iterable(map(inbox.read_results, results))
        counts, examples = models.results.take(lines)
        with Store(store_file) as store:
            for _, run in runs:
                plan = run.loaded.plan
                adopt_all(Task(plan, run.candidate, run.judges, store))
            try:
                asyncio.run(_evaluate(runs, models, store))
            except UnreadableError as fault:
                raise ModelError(str(fault)) from None
        return [*models.finished(counts, examples), *notes]


def _require_files(spec: RunSpec, export: Path | None, results: Sequence[Path]) -> None:
    """Refuse files that cannot be used, and settings that make no sense with a batch."""
    if export and export.is_dir():
        raise UserError(f"--batch-export {export}: a folder; name a file")
    for path in results:
        why = why_no_file(path)
        if why:
            raise UserError(f"--batch-import {path}: {why}")
    if spec.store.fresh:
        raise UserError(
            "--fresh with a batch: answers of a batch go into the store; for an empty one give "
            "--store FILE"
        )
    if spec.limits.stop_early:
        raise UserError(
            "--stop-early with a batch: a batch asks for everything at once"
        )


async def _evaluate(
    runs: Iterable[tuple[RunConfig, Assembly]], models: BatchModels, store: Store
) -> None:
    async with AsyncExitStack() as stack:
        for client in models.clients:
            await stack.enter_async_context(client)
        for config, run in runs:
            samples = config.answering.sampling.samples
            in_flight = prompts_at_once(config.limits, config.models, samples)
            judges = _watched(run.judges, models.results)
            for task in _tasks(run, judges, store):
                evaluation = Evaluation(
                    task, in_flight=in_flight, finished=lambda *_: None
                )
                await evaluation.run()


def _tasks(run: Assembly, judges: Judges, store: Store) -> Iterator[Task]:
    """Yield the checks of a run's judges, then its own prompts in slices."""
    works: list[tuple[Plan, Candidate]] = []
    for way, asked in canary.by_way(run.judges).items():
        check = panel.exchanges(way, asked)
        works.append(({canary.name_for(way): check.plan()}, check.candidate()))
    works.append((run.loaded.plan, run.candidate))
    for plan, candidate in works:
        for name, prompts in plan.items():
            for first in range(0, len(prompts), SLICE):
                part = {name: prompts[first : first + SLICE]}
                yield Task(part, candidate, judges, store, withheld=run.withheld)


def _watched(judges: Judges, results: Inbox) -> Judges:
    return {
        name: tuple(cast(Judge, _Watched(judge, results)) for judge in several)
        for name, several in judges.items()
    }
