"""The evaluation: prompts become answers, judgements and records, through the store.

All prompts of all selected benchmarks stream through candidate and judges; an answer is judged as
soon as it exists, and nothing waits for a batch or a benchmark to end.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote, unusable
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import Store, content_key
from refusal_checks.core.verdicts import FINISHED, Invalid, Judgement, Reason, Valid
from refusal_checks.engines import kinds
from refusal_checks.judges import cascade
from refusal_checks.judges.base import Judge
from refusal_checks.models.candidates import Answer, Candidate
from refusal_checks.models.spec import CandidateModel, JudgeModel, Served
from refusal_checks.results.progress import Progress
from refusal_checks.run.aio import Once, Saver, together

Plan = Mapping[str, Sequence[Prompt]]
"""The prompts to evaluate, by benchmark."""

Judges = Mapping[str, tuple[Judge, ...]]
"""The judges of each benchmark; several decide by majority, and no two have the same name."""


@dataclass(frozen=True)
class Task:
    """Prompts to answer and answers to judge, through the store that holds what is done.

    Attributes:
        whole: the plan that this one is a part of; None if it is all.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    store: Store
    whole: Plan | None = None

    @property
    def drawn(self) -> Mapping[str, frozenset[str]]:
        """The prompts whose answers the second judge of a cascade reads in any case, by id."""
        whole = self.whole or self.plan
        return {name: drawn(self.judges[name], name, whole[name]) for name in self.plan}


def drawn(judges: Sequence[Judge], benchmark: str, prompts: Sequence[Prompt]) -> frozenset[str]:
    """See ``Task.drawn``; of one benchmark."""
    found = cascade.of(judges)
    return found.drawn(benchmark, [p.id for p in prompts]) if found else frozenset()


@dataclass(frozen=True)
class Pending:
    """What the store does not hold yet; equal prompts count once, even those of two benchmarks.

    Attributes:
        verdicts: most verdicts to ask for; equal answers are judged once.
        judges: names of the judges to ask.
    """

    answers: int
    verdicts: int
    judges: frozenset[str] = frozenset()


def pending(task: Task) -> Pending:
    """Count the work that is left to do.

    The store first notes which of its entries the task needs, so that none of those that are
    counted here is dropped later.
    """
    candidate, store = task.candidate, task.store
    missing: set[str] = set()
    wanted: dict[Hashable, Judge] = {}
    for name, prompts in task.plan.items():
        store.use(key for prompt in prompts for key in candidate.keys(prompt))
        known = candidate.known(prompts, store)
        asked = [judge for judge in task.judges[name] if judge.identity is not None]
        spared = _spared(task, name, known)
        for prompt in prompts:
            keys = candidate.keys(prompt)
            absent = [key for key in keys if key not in known]
            missing.update(absent)
            usable = [
                as_judged(prompt, answer)
                for key in keys
                if (answer := known.get(key)) and unusable(answer, candidate.max_tokens) is None
            ]
            for judge in asked:
                wanted |= {(judge.identity, key): judge for key in absent}
                wanted |= {
                    key: judge
                    for shown, answer in usable
                    if judge.without_asking(shown, answer) is None
                    and (key := verdict_key(judge, shown, answer.text)) not in spared
                }
    keys = [key for key in wanted if isinstance(key, str)]
    store.use(keys)
    stored = store.judged(keys)
    unread = [judge for key, judge in wanted.items() if key not in stored]
    verdicts = sum(judge.samples for judge in unread)
    return Pending(len(missing), verdicts, frozenset(judge.name for judge in unread))


def _spared(task: Task, name: str, known: Mapping[str, Completion]) -> frozenset[str]:
    """Keys of verdicts that the second judge of a cascade need not give: the first one is sure."""
    found = cascade.of(task.judges[name])
    if found is None:
        return frozenset()
    pairs: dict[str, set[str]] = {}
    needed: set[str] = set()
    sample = task.drawn[name]
    for prompt in task.plan[name]:
        answers = (known[key] for key in task.candidate.keys(prompt) if key in known)
        for shown, answer in (as_judged(prompt, each) for each in answers):
            first, second = (
                verdict_key(judge, shown, answer.text) for judge in (found.first, found.second)
            )
            pairs.setdefault(first, set()).add(second)
            if prompt.id in sample:
                needed.add(second)
    stored = task.store.judgements(pairs)
    sure = (key for key, verdict in stored.items() if not found.is_unsure(verdict))
    return frozenset(second for key in sure for second in pairs[key]) - needed


def verdict_key(judge: Judge, prompt: Prompt, answer: str) -> str:
    """Content key of a verdict: equal answers to equal prompts are judged once.

    Both are as the judge sees them, without an attack. Where it breaks special tokens up, what it
    is shown belongs to the key. The verdict on a choice says whether it is right, so it depends on
    the answer key too.
    """
    special = judge.special_tokens
    changes = special.changes(prompt.transcript, answer) if special else ()
    key = [list(prompt.options), prompt.reference] if prompt.options else []
    return content_key(judge.identity, prompt.turns, answer, *changes, *key)


LEAST = 64
"""Prompts at one time where nothing else is known, as of servers that others run."""


def prompts_at_once(
    limits: Limits,
    models: Iterable[CandidateModel | JudgeModel],
    samples: int = 1,
    *,
    stop_early: bool = False,
    copies: int = 1,
) -> int:
    """Prompts that are answered or judged at one time: enough to keep the engines full.

    Twice as many answers as the engines run sequences: a prompt's answers come when the slowest of
    them does, so on average half of them are running.

    Args:
        samples: answers to a prompt.
        copies: of each model, that were added to what the options ask for.
    """
    if limits.in_flight is not None:
        return limits.in_flight
    if stop_early:
        return LEAST  # what is in flight when a benchmark stops is for nothing
    widest = max((_sequences(model) for model in models if isinstance(model, Served)), default=0)
    return max(LEAST, math.ceil(2 * widest * copies / samples))


def _sequences(model: Served) -> int:
    engine = kinds.get(model.engine)
    return engine.sequences(model.args) * engine.parallel(model.args).copies


Result = TypeVar("Result")

Finished = Callable[[str, Sequence[Record]], None]
"""Called with a benchmark's name and all its records once they are complete."""

Enough = Callable[[str, Sequence[Record]], bool]
"""Called with a benchmark's name and the records of each prompt, in the plan's order; returns True
if the benchmark needs no further prompt."""

_Shown = tuple[Prompt, Completion]
"""What the judges are shown, see ``as_judged``."""

_Known = Mapping[tuple[str, str], tuple[str, Valid | None]]
"""By judge's name and answer: the verdict's content key, and the verdict if it is stored."""

_FINAL = (Reason.EMPTY_ANSWER, Reason.DEGENERATE_ANSWER, Reason.UNCLOSED_REASONING)
"""Faults of an answer that asking again would only repeat, since its seed is the same."""


class Evaluation:
    """Evaluates one task.

    Args:
        in_flight: prompts that are being answered or judged at one time.
        enough: stops benchmarks early; prompts in flight then are still finished.
        progress: counts what is done.
        may_judge: set once judges can be asked. Until then the candidate goes on to answer; with
            ``enough`` it waits, because some answers may turn out not to be needed.
    """

    def __init__(
        self,
        task: Task,
        *,
        in_flight: int,
        finished: Finished,
        enough: Enough | None = None,
        progress: Progress | None = None,
        may_judge: asyncio.Event | None = None,
    ) -> None:
        self._task = task
        self._candidate = task.candidate
        self._saver = Saver(task.store)
        self._in_flight = in_flight
        self._finished = finished
        self._progress = progress or Progress()
        self._progress.plan({name: len(prompts) for name, prompts in task.plan.items()})
        self._benchmarks = {
            name: _Benchmark(name, prompts, enough) for name, prompts in task.plan.items()
        }
        self._drawn = task.drawn
        self._may_judge = may_judge
        self._keeps_answering = enough is None
        self._unjudged: deque[tuple[str, Prompt, list[Answer]]] = deque()
        self._answered = Once[list[Answer]]()
        self._verdicts = Once[Judgement]()

    async def run(self) -> None:
        """Evaluate everything; the first exception that is not one answer's fault ends it."""
        if self._may_judge and not self._may_judge.is_set():
            await self._all(self._work, self._catch_up)
        else:
            await self._all(self._work)

    async def answer(self) -> None:
        """Ask for all answers that are missing, and judge none."""
        await self._all(self._ask)

    async def _all(
        self, *kinds: Callable[[Iterator[tuple[str, Prompt]]], Coroutine[Any, Any, None]]
    ) -> None:
        queue = ((name, prompt) for name, prompts in self._task.plan.items() for prompt in prompts)
        await together(*(work(queue) for work in kinds * self._in_flight))

    async def _ask(self, queue: Iterator[tuple[str, Prompt]]) -> None:
        for name, prompt in queue:
            await _despite_warnings(self._answers, prompt)
            self._progress.answered(name)

    async def _work(self, queue: Iterator[tuple[str, Prompt]]) -> None:
        for name, prompt in queue:
            if not self._benchmarks[name].start():
                continue
            answers: list[Answer] = await _despite_warnings(self._answers, prompt)
            self._progress.answered(name)
            if self._may_judge and not self._may_judge.is_set():
                if self._keeps_answering:
                    self._unjudged.append((name, prompt, answers))
                    continue
                await self._may_judge.wait()
            await self._finish(name, prompt, answers)

    async def _catch_up(self, queue: Iterator[tuple[str, Prompt]]) -> None:
        """Judge what was answered before judges could be asked."""
        assert self._may_judge, "else nothing was left"
        await self._may_judge.wait()
        while self._unjudged:
            await self._finish(*self._unjudged.popleft())

    async def _finish(self, name: str, prompt: Prompt, answers: Sequence[Answer]) -> None:
        """Judge a prompt's answers; the last of a benchmark complete it."""
        benchmark = self._benchmarks[name]
        records: list[Record] = await _despite_warnings(self._judged, name, prompt, answers)
        self._progress.judged(name, records)
        if benchmark.add(prompt, records):
            self._progress.finished(name)
            self._finished(name, benchmark.records())

    async def _judged(self, name: str, prompt: Prompt, answers: Sequence[Answer]) -> list[Record]:
        judges = self._task.judges[name]
        shown = {
            i: as_judged(prompt, a) for i, a in enumerate(answers) if isinstance(a, Completion)
        }
        known = self._known(judges, shown.values())

        async def record(sample: int, answer: Answer) -> Record:
            if isinstance(answer, Invalid):
                return Record(prompt, sample, None, answer)
            fault = self._unusable(answer)
            if fault is None:
                votes = await self._votes(name, prompt.id, shown[sample], known)
            else:
                given = ((judge.name, judge.without_answer(answer)) for judge in judges)
                votes = tuple(Vote(name, verdict) for name, verdict in given if verdict)
                if len(votes) < len(judges):
                    return Record(prompt, sample, answer, fault)
            judgement = cascade.decide(judges, votes)
            return Record(prompt, sample, answer, judgement, votes if len(votes) > 1 else ())

        return await asyncio.gather(*map(record, range(len(answers)), answers))

    def _known(self, judges: Sequence[Judge], shown: Iterable[_Shown]) -> _Known:
        keys = {
            (judge.name, answer.text): verdict_key(judge, prompt, answer.text)
            for judge in judges
            if judge.identity is not None
            for prompt, answer in shown
        }
        stored = self._task.store.judgements(set(keys.values()))
        return {each: (key, stored.get(key)) for each, key in keys.items()}

    async def _votes(
        self, name: str, prompt: str, shown: _Shown, known: _Known
    ) -> tuple[Vote, ...]:
        """What the judges say of one answer; the second of a cascade may not be asked."""
        judges = self._task.judges[name]

        async def vote(judge: Judge) -> Vote:
            return Vote(judge.name, await self._verdict(judge, *shown, known))

        if len(judges) == 1:  # the usual case, without a further task
            return (await vote(judges[0]),)
        found = cascade.of(judges)
        if found is None:
            return tuple(await asyncio.gather(*map(vote, judges)))
        first = await vote(found.first)
        if prompt in self._drawn[name] or found.is_unsure(first.judgement):
            return first, await vote(found.second)
        return (first,)

    async def _answers(self, prompt: Prompt) -> list[Answer]:
        """The prompt's answers; equal prompts are answered once, even those of two benchmarks."""
        keys = self._candidate.keys(prompt)
        work = partial(self._answer, prompt, keys)
        return await self._answered.get((prompt.messages, *keys), work)

    async def _answer(self, prompt: Prompt, keys: Sequence[str]) -> list[Answer]:
        answers: dict[str, Answer] = dict(self._candidate.known([prompt], self._task.store))
        for first, count in _runs(i for i, key in enumerate(keys) if key not in answers):
            drawn = await self._candidate.answer(prompt, first, count)
            new = dict(zip(keys[first : first + count], drawn, strict=True))
            await self._saver.completions(self._final(new))
            answers |= new
        return [answers[key] for key in keys]

    def _final(self, answers: Mapping[str, Answer]) -> dict[str, Completion]:
        """The answers worth storing: an empty or filtered one is, not one that was broken off."""
        return {
            key: answer
            for key, answer in answers.items()
            if isinstance(answer, Completion)
            and (
                (fault := self._unusable(answer)) is None
                or fault.reason in _FINAL
                or answer.finish_reason in FINISHED - {"length"}
            )
        }

    def _unusable(self, answer: Completion) -> Invalid | None:
        return unusable(answer, self._candidate.max_tokens)

    async def _verdict(
        self, judge: Judge, prompt: Prompt, answer: Completion, known: _Known
    ) -> Judgement:
        if judge.identity is None:
            return await judge.judge(prompt, answer)
        if (certain := judge.without_asking(prompt, answer)) is not None:
            return certain
        key, stored = known[judge.name, answer.text]
        if stored is not None:
            return stored
        return await self._verdicts.get(key, partial(self._judge, key, judge, prompt, answer))

    async def _judge(self, key: str, judge: Judge, prompt: Prompt, answer: Completion) -> Judgement:
        judgement = await judge.judge(prompt, answer)
        if not isinstance(judgement, Invalid):
            await self._saver.judgement(key, judgement)
        return judgement


class _Benchmark:
    """The records of one benchmark so far, and whether it needs more."""

    def __init__(self, name: str, prompts: Sequence[Prompt], enough: Enough | None) -> None:
        self._name = name
        self._prompts = prompts
        self._enough = enough
        self._done: dict[str, list[Record]] = {}
        self._started = self._looked = 0
        self._stopped = False

    def start(self) -> bool:
        """Count one more prompt as started; return False if none is needed."""
        self._started += not self._stopped
        return not self._stopped

    def add(self, prompt: Prompt, records: list[Record]) -> bool:
        """Take in a prompt's records; return True if the benchmark is complete."""
        self._done[prompt.id] = records
        while self._enough and not self._stopped and self._looked < len(self._prompts):
            following = self._done.get(self._prompts[self._looked].id)
            if following is None:
                break
            self._looked += 1
            self._stopped = self._enough(self._name, following)
        return len(self._done) == (self._started if self._stopped else len(self._prompts))

    def records(self) -> list[Record]:
        """All records, in the order of the prompts."""
        return [record for p in self._prompts for record in self._done.get(p.id, ())]


async def _despite_warnings(work: Callable[..., Coroutine[Any, Any, Result]], *args: Any) -> Result:
    """Call a coroutine function, again if a warning broke it off.

    While pytest sets up a test of a strict project, it turns warnings into errors in the whole
    process, threads included.
    """
    try:
        return await work(*args)
    except Warning:
        found: Result = await _with_patience(work, *args)
        return found


_with_patience = AsyncRetrying(
    retry=retry_if_exception_type(Warning),
    wait=wait_fixed(0.1),
    stop=stop_after_delay(60),
    reraise=True,
)


def _runs(samples: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers as (first, count)."""
    runs = groupby(enumerate(samples), lambda pair: pair[1] - pair[0])
    grouped = ([sample for _, sample in run] for _, run in runs)
    return [(run[0], len(run)) for run in grouped]
