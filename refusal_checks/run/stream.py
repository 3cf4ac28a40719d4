"""Turn prompts into answers, judgements and records, by way of the store.

The prompts of all selected benchmarks stream through candidate and judges. An answer is judged as
soon as it exists; nothing waits for a batch or a benchmark to end.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.models.candidates import Answer
from refusal_checks.results.events import Progress
from refusal_checks.run.concurrency import SingleFlight, WriteBatcher, gather_or_cancel
from refusal_checks.run.plan import Task
from refusal_checks.run.stages.answer import Sampler
from refusal_checks.run.stages.judge import JudgePanel

Judged = Callable[[str, Sequence[Record]], None]
"""Called with a benchmark's name and the records of a judged prompt; without records it begins."""

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
        judged: Judged | None = None,
        progress: Progress | None = None,
        may_judge: asyncio.Event | None = None,
        answered: SingleFlight[list[Answer]] | None = None,
    ) -> None:
        self._task = task
        self._in_flight = in_flight
        self._judged = judged or (lambda *_: None)
        self._finished = finished
        self._progress = progress or Progress()
        self._progress.plan({name: len(prompts) for name, prompts in task.plan.items()})
        for name in task.plan:
            self._judged(name, ())
        writer = WriteBatcher(task.store)
        self._sampler = Sampler(task.candidate, task.store, writer, answered)
        self._panel = JudgePanel(task, writer)
        # By benchmark and prompt id, until a benchmark is complete.
        self._records: dict[str, dict[str, list[Record]]] = {
            name: {} for name in task.plan
        }
        # All workers take from one generator: whoever is free gets the next prompt.
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
        # Catching up has workers of its own: else the candidate would wait for judges that work off
        # what came before they were ready.
        works = [self._work() for _ in range(self._in_flight)]
        works += [self._catch_up() for _ in range(self._in_flight)]
        await gather_or_cancel(*works)

    async def answer(self) -> None:
        """Ask for all missing answers, without judging them."""

        async def work() -> None:
            for name, prompt in self._queue:
                await self._answer(name, prompt)

        await gather_or_cancel(*(work() for _ in range(self._in_flight)))

    async def _work(self) -> None:
        for name, prompt in self._queue:
            answers = await self._answer(name, prompt)
            if self._may_judge.is_set():
                await self._judge(name, prompt, answers)
            else:
                self._unjudged.append((name, prompt, answers))

    async def _catch_up(self) -> None:
        """Judge the answers that came before judges could be asked."""
        await self._may_judge.wait()
        while self._unjudged:
            await self._judge(*self._unjudged.popleft())

    async def _answer(self, name: str, prompt: Prompt) -> list[Answer]:
        self._progress.count_begun(name)
        answers = await self._sampler.answers(prompt)
        self._progress.count_answered(name)
        return answers

    async def _judge(self, name: str, prompt: Prompt, answers: list[Answer]) -> None:
        """Judge a prompt's answers; pass the benchmark on if they were its last."""
        records = await self._panel.records(name, prompt, answers)
        self._progress.count_judged(name, records)
        self._judged(name, records)
        prompts, by_id = self._task.plan[name], self._records[name]
        by_id[prompt.id] = records
        if len(by_id) == len(prompts):
            self._progress.count_finished(name)
            del self._records[name]  # the texts of a large benchmark take much memory
            # In the order of the plan, so that equal runs write equal files.
            self._finished(
                name, list(chain.from_iterable(by_id[p.id] for p in prompts))
            )
