"""Turn prompts into answers, judgements and records, through the store.

The prompts of all selected benchmarks stream through candidate and judges. An answer is judged as
soon as it exists; nothing waits for a batch or a benchmark to end.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.evaluation.aio import SingleFlight, WriteBatcher, gather_or_cancel
from refusal_checks.evaluation.answering import Sampler
from refusal_checks.evaluation.planning import Task
from refusal_checks.evaluation.voting import JudgePanel
from refusal_checks.models.candidates import Answer
from refusal_checks.results.events import Progress

Finished = Callable[[str, Sequence[Record]], None]
"""Called with a benchmark's name and all its records once they are complete."""


class PromptStream:
    """Passes the prompts of a task through its candidate and judges.

    Args:
        in_flight: number of prompts to answer or judge concurrently.
        may_judge: set once judges can be asked. Until then the candidate answers ahead.
        answered: answers of an earlier turn by prompt and keys, if the candidate is no longer up.
    """

    def __init__(
        self,
        task: Task,
        *,
        in_flight: int,
        finished: Finished,
        progress: Progress | None = None,
        may_judge: asyncio.Event | None = None,
        answered: SingleFlight[list[Answer]] | None = None,
    ) -> None:
        self._task = task
        self._in_flight = in_flight
        self._finished = finished
        self._progress = progress or Progress()
        self._progress.plan({name: len(prompts) for name, prompts in task.plan.items()})
        writer = WriteBatcher(task.store)
        self._sampler = Sampler(task.candidate, task.store, writer, answered)
        self._panel = JudgePanel(task, writer)
        self._benchmarks = {
            name: _Benchmark(prompts) for name, prompts in task.plan.items()
        }
        self._queue = (
            (name, prompt) for name, prompts in task.plan.items() for prompt in prompts
        )
        self._may_judge = may_judge or asyncio.Event()
        if may_judge is None:
            self._may_judge.set()
        # Answered before judges could be asked.
        self._unjudged: deque[tuple[str, Prompt, list[Answer]]] = deque()

    async def run(self) -> None:
        """Evaluate everything; may be called once."""
        works = [self._work() for _ in range(self._in_flight)]
        works += [self._catch_up() for _ in range(self._in_flight)]
        await gather_or_cancel(*works)

    async def answer(self) -> None:
        """Ask for all missing answers, without judging them."""

        async def work() -> None:
            for name, prompt in self._queue:
                self._progress.begun(name)
                await self._sampler.answers(prompt)
                self._progress.answered(name)

        await gather_or_cancel(*(work() for _ in range(self._in_flight)))

    async def _work(self) -> None:
        for name, prompt in self._queue:
            self._progress.begun(name)
            answers = await self._sampler.answers(prompt)
            self._progress.answered(name)
            if not self._may_judge.is_set():
                self._unjudged.append((name, prompt, answers))
                continue
            await self._may_judge.wait()
            await self._finish(name, prompt, answers)

    async def _catch_up(self) -> None:
        """Judge the answers that came before judges could be asked."""
        await self._may_judge.wait()
        while self._unjudged:
            name, prompt, answers = self._unjudged.popleft()
            await self._finish(name, prompt, answers)

    async def _finish(
        self, name: str, prompt: Prompt, answers: Sequence[Answer]
    ) -> None:
        """Judge a prompt's answers; publish the benchmark if they were its last."""
        benchmark = self._benchmarks[name]
        records = await self._panel.records(name, prompt, answers)
        self._progress.judged(name, records)
        if benchmark.add(prompt, records):
            self._progress.finished(name)
            self._finished(name, benchmark.records())


class _Benchmark:
    """Collects the records of one benchmark, and knows whether it needs more."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        self._prompts = prompts
        self._records: dict[str, list[Record]] = {}  # by prompt id

    def add(self, prompt: Prompt, records: list[Record]) -> bool:
        """Add a prompt's records; return True if the benchmark is now complete."""
        self._records[prompt.id] = records
        return len(self._records) == len(self._prompts)

    def records(self) -> list[Record]:
        records: list[Record] = []
        for prompt in self._prompts:
            records += self._records[prompt.id]
        return records
