"""The evaluation: prompts become answers, judgements and records, through the store.

All prompts of all selected benchmarks stream through candidate and judges; an answer is judged as
soon as it exists, and nothing waits for a batch or a benchmark to end.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote, unusable
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import Store, content_key
from refusal_checks.core.verdicts import FINISHED, Invalid, Judgement, Reason
from refusal_checks.engines import kinds
from refusal_checks.judges import cascade
from refusal_checks.judges.base import Judge
from refusal_checks.metrics.refusal import weights_decide
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
    """Prompts, perhaps a part of a whole plan, to answer and judge through the store.

    With ``weighs_all``, answers are weighed whatever their verdicts, which others may replace.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    store: Store
    whole: Plan | None = None
    weighs_all: bool = False

    def drawn(self, name: str) -> frozenset[str]:
        return drawn(self.judges[name], name, (self.whole or self.plan)[name])


def drawn(judges: Sequence[Judge], benchmark: str, prompts: Sequence[Prompt]) -> frozenset[str]:
    """The prompts whose answers the second judge of a cascade reads in any case, by id."""
    found = cascade.of(judges)
    return found.drawn(benchmark, [p.id for p in prompts]) if found else frozenset()


class Ballot:
    """The judging of one prompt's answers, of which some may not be there.

    Attributes:
        shown: what the judges are shown of each answer that can be judged, see ``as_judged``.
        keys: of the verdicts that are stored, by judge and answer.
        unweighed: the answers that may have to be weighed.
        stored: verdicts by key, which are looked up once it is made.
    """

    def __init__(
        self,
        judges: tuple[Judge, ...],
        prompt: Prompt,
        answers: Sequence[Answer | None],
        max_tokens: int | None,
        is_drawn: bool,
    ) -> None:
        self.prompt, self.answers = prompt, answers
        self._judges, self._is_drawn = judges, is_drawn
        self._cascade = cascade.of(judges)
        given = {i: each for i, each in enumerate(answers) if isinstance(each, Completion)}
        self._faults = {i: unusable(answer, max_tokens) for i, answer in given.items()}
        self.shown = {i: as_judged(prompt, a) for i, a in given.items() if self._faults[i] is None}
        self.keys = {
            (judge.name, sample): verdict_key(judge, asked, answer.text)
            for judge in judges
            if judge.identity is not None
            for sample, (asked, answer) in self.shown.items()
        }
        self.stored: Mapping[str, Judgement] = {}
        self.votes: list[list[Vote]] = [[] for _ in answers]
        self.unweighed = {i: answer for i, answer in given.items() if answer.token_ids}

    def next(self, sample: int) -> dict[Judge, Judgement | None]:
        """Take in the votes on an answer that are known; the next judges, if one must read it.

        Each has its verdict beside it if that is known.
        """
        votes = self.votes[sample]
        while judges := self._next(votes) if sample in self.shown else ():
            known = {judge: self._known(judge, sample) for judge in judges}
            if not all(known.values()):
                return known
            votes += [Vote(judge.name, verdict) for judge, verdict in known.items() if verdict]
        return {}

    def unread(self, sample: int) -> list[Judge]:
        """The judges who may have to read an answer."""
        judges = [judge for judge, verdict in self.next(sample).items() if verdict is None]
        second = self._cascade and self._cascade.second
        if judges and second and second not in judges and not self._known(second, sample):
            judges.append(second)
        return judges

    def _next(self, votes: Sequence[Vote]) -> Sequence[Judge]:
        formed = self._cascade
        if formed is None:
            return self._judges[len(votes) :]
        if not votes:
            return (formed.first,)
        is_asked = self._is_drawn or formed.is_unsure(votes[0].judgement)
        return (formed.second,) if is_asked and len(votes) == 1 else ()

    def _known(self, judge: Judge, sample: int) -> Judgement | None:
        known = judge.without_asking(*self.shown[sample])
        return known or self.stored.get(self.keys.get((judge.name, sample), ""))

    def records(self) -> list[Record]:
        """The answers with their verdicts; all are there."""
        return [
            Record(self.prompt, sample, None, answer)
            if isinstance(answer, Invalid)
            else self._record(sample, answer)
            for sample, answer in enumerate(self.answers)
            if answer
        ]

    def _record(self, sample: int, answer: Completion) -> Record:
        votes = self.votes[sample]
        if fault := self._faults[sample]:
            given = [(judge.name, judge.without_answer(answer)) for judge in self._judges]
            votes = [Vote(name, verdict) for name, verdict in given if verdict]
            if len(votes) < len(self._judges):
                return Record(self.prompt, sample, answer, fault)
        judgement = cascade.decide(self._judges, votes)
        return Record(self.prompt, sample, answer, judgement, tuple(votes) if votes[1:] else ())


def _disputed(records: Sequence[Record]) -> bool:
    """True if what one of the judges, or all together, say of a prompt depends on weights."""
    said: dict[str, list[Judgement]] = {}
    for record in records:
        said.setdefault("", []).append(record.judgement)
        for vote in record.votes:
            said.setdefault(vote.judge, []).append(vote.judgement)
    return any(map(weights_decide, said.values()))


class Pending(NamedTuple):
    """What the store does not hold yet; equal prompts count once, even those of two benchmarks.

    Verdicts are the most that may be asked for, since equal answers are judged once.
    ``may_weigh`` is True if the candidate may have to weigh stored answers.
    """

    answers: int
    verdicts: int
    judges: frozenset[str] = frozenset()
    may_weigh: bool = False


_PART = 500  # prompts that are looked up together


def pending(task: Task) -> Pending:
    """Count the work that is left to do.

    The store first notes which of its entries the task needs, so that none of those that are
    counted here is dropped later.
    """
    candidate, store = task.candidate, task.store
    missing: set[str] = set()
    wanted: dict[Hashable, Judge] = {}
    may_weigh = False
    for name, prompts in task.plan.items():
        judges, sample, most = task.judges[name], task.drawn(name), candidate.max_tokens
        for first in range(0, len(prompts), _PART):
            part = prompts[first : first + _PART]
            keys = [candidate.keys(prompt) for prompt in part]
            store.use(key for several in keys for key in several)
            known = candidate.known(part, store)
            absent = {key for several in keys for key in several if key not in known}
            missing |= absent
            wanted |= {(j.identity, key): j for j in judges if j.identity for key in absent}
            ballots = [
                Ballot(judges, prompt, [*map(known.get, several)], most, prompt.id in sample)
                for prompt, several in zip(part, keys, strict=True)
            ]
            verdicts = {key for ballot in ballots for key in ballot.keys.values()}
            store.use(verdicts)
            stored = store.judgements(verdicts)
            for ballot in ballots:
                ballot.stored = stored
                unread = [(judge, i) for i in ballot.shown for judge in ballot.unread(i)]
                keyed = (pair for pair in unread if pair[0].identity)
                wanted |= {ballot.keys[judge.name, i]: judge for judge, i in keyed}
                if ballot.unweighed and None not in ballot.answers and not may_weigh:
                    may_weigh = task.weighs_all or bool(unread) or _disputed(ballot.records())
    names = frozenset(judge.name for judge in wanted.values())
    count = sum(judge.samples for judge in wanted.values())
    return Pending(len(missing), count, names, may_weigh)


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
    them does, so on average half of them are running. ``copies`` of each model may have been added
    to what the options ask for.
    """
    if limits.in_flight is not None:
        return limits.in_flight
    if stop_early:
        return LEAST  # what is in flight when a benchmark stops is for nothing
    started = [(kinds.get(m.engine), m.args) for m in models if isinstance(m, Served)]
    widest = max((e.sequences(args) * e.parallel(args).copies for e, args in started), default=0)
    return max(LEAST, math.ceil(2 * widest * copies / samples))


Result = TypeVar("Result")

Finished = Callable[[str, Sequence[Record]], None]
"""Called with a benchmark's name and all its records once they are complete."""

Enough = Callable[[str, Sequence[Record]], bool]
"""Called with a benchmark's name and the records of each prompt, in the plan's order; returns True
if the benchmark needs no further prompt."""

_FINAL = (Reason.EMPTY_ANSWER, Reason.DEGENERATE_ANSWER, Reason.UNCLOSED_REASONING)
"""Faults of an answer that asking again would only repeat, since its seed is the same."""


class Evaluation:
    """Evaluates one task.

    Args:
        in_flight: prompts that are being answered or judged at one time.
        enough: stops benchmarks early; prompts in flight then are still finished.
        may_judge: set once judges can be asked. Until then the candidate goes on to answer; with
            ``enough`` it waits, because some answers may turn out not to be needed.
        answered: answers by prompt and keys; of an earlier turn, where the candidate is gone.
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
        answered: Once[list[Answer]] | None = None,
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
        self._drawn = {name: task.drawn(name) for name in task.plan}
        self._queue = ((name, prompt) for name, prompts in task.plan.items() for prompt in prompts)
        self._may_judge = may_judge or asyncio.Event()
        if may_judge is None:
            self._may_judge.set()
        self._keeps_answering = enough is None
        self._unjudged: deque[tuple[str, Prompt, list[Answer]]] = deque()
        self._answered = answered or Once[list[Answer]]()
        self._weighs_at_once = False
        self._verdicts = Once[Judgement]()

    async def run(self) -> None:
        """Evaluate everything, once; an exception that is not one answer's fault ends it."""
        kinds = self._work, self._catch_up
        await together(*(work() for work in kinds for _ in range(self._in_flight)))

    async def answer(self) -> None:
        """Ask for all answers that are missing, weigh them, and judge none."""
        self._weighs_at_once = True
        await together(*(self._ask() for _ in range(self._in_flight)))

    async def _ask(self) -> None:
        for name, prompt in self._queue:
            await _despite_warnings(self._answers, prompt)
            self._progress.answered(name)

    async def _work(self) -> None:
        for name, prompt in self._queue:
            if not self._benchmarks[name].start():
                continue
            answers = await _despite_warnings(self._answers, prompt)
            self._progress.answered(name)
            if not self._may_judge.is_set():
                if self._keeps_answering:
                    self._unjudged.append((name, prompt, answers))
                    continue
                await self._may_judge.wait()
            await self._finish(name, prompt, answers)

    async def _catch_up(self) -> None:
        """Judge what was answered before judges could be asked."""
        await self._may_judge.wait()
        while self._unjudged:
            await self._finish(*self._unjudged.popleft())

    async def _finish(self, name: str, prompt: Prompt, answers: Sequence[Answer]) -> None:
        """Judge a prompt's answers; the last of a benchmark complete it."""
        benchmark = self._benchmarks[name]
        records = await _despite_warnings(self._judged, name, prompt, answers)
        self._progress.judged(name, records)
        if benchmark.add(prompt, records):
            self._progress.finished(name)
            self._finished(name, benchmark.records())

    async def _judged(self, name: str, prompt: Prompt, answers: Sequence[Answer]) -> list[Record]:
        judges, is_drawn = self._task.judges[name], prompt.id in self._drawn[name]
        ballot = Ballot(judges, prompt, answers, self._candidate.max_tokens, is_drawn)
        ballot.stored = self._task.store.judgements(set(ballot.keys.values()))
        asked = {sample: who for sample in ballot.shown if (who := ballot.next(sample))}
        await _each(partial(self._vote, ballot, *each) for each in asked.items())
        return await self._weighed(ballot, ballot.records())

    async def _vote(
        self, ballot: Ballot, sample: int, asked: dict[Judge, Judgement | None]
    ) -> None:
        """Collect the votes on an answer."""
        while asked:
            unknown = [judge for judge, verdict in asked.items() if verdict is None]
            given = await _each(partial(self._read, ballot, sample, judge) for judge in unknown)
            asked |= zip(unknown, given, strict=True)
            votes = [Vote(judge.name, verdict) for judge, verdict in asked.items() if verdict]
            ballot.votes[sample] += votes
            asked = ballot.next(sample)

    async def _read(self, ballot: Ballot, sample: int, judge: Judge) -> Judgement:
        asked, answer = ballot.shown[sample]
        if judge.identity is None:
            return await judge.judge(asked, answer)
        key = ballot.keys[judge.name, sample]
        return await self._verdicts.get(key, partial(self._verdict, key, judge, asked, answer))

    async def _verdict(
        self, key: str, judge: Judge, prompt: Prompt, answer: Completion
    ) -> Judgement:
        judgement = await judge.judge(prompt, answer)
        if not isinstance(judgement, Invalid):
            await self._saver.save(judgements={key: judgement})
        return judgement

    async def _weighed(self, ballot: Ballot, records: list[Record]) -> list[Record]:
        """The records, with the answers weighed if that decides anything."""
        if not ballot.unweighed:
            return records
        keys = self._candidate.keys(ballot.prompt)
        weighed: Mapping[str, Completion] = {}
        fault: Invalid | None = None
        if self._task.weighs_all or _disputed(records):
            try:
                given = {keys[sample]: answer for sample, answer in ballot.unweighed.items()}
                weighed = await self._weigh(ballot.prompt, given)
            except EndpointError as problem:
                fault = Invalid(Reason.ENGINE_ERROR, f"no log-probabilities: {problem}")
        for sample, answer in ballot.unweighed.items():
            found = weighed.get(keys[sample]) or replace(answer, token_ids="")
            record = replace(records[sample], completion=found)
            records[sample] = replace(record, judgement=fault, votes=()) if fault else record
        return records

    async def _weigh(
        self, prompt: Prompt, answers: Mapping[str, Answer]
    ) -> Mapping[str, Completion]:
        given = {k: a for k, a in answers.items() if isinstance(a, Completion) and a.token_ids}
        found = await self._candidate.weigh(prompt, given) if given else {}
        await self._saver.save(self._final(found))
        return found

    async def _answers(self, prompt: Prompt) -> list[Answer]:
        """The prompt's answers; equal prompts are answered once, even those of two benchmarks."""
        keys, unsaved = self._candidate.keys(prompt), False

        async def work() -> list[Answer]:
            nonlocal unsaved
            answers: dict[str, Answer] = dict(self._candidate.known([prompt], self._task.store))
            missing = [sample for sample, key in enumerate(keys) if key not in answers]
            # One request asks for each run of consecutive samples.
            for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
                samples = [sample for _, sample in run]
                given = await self._candidate.answer(prompt, samples[0], len(samples))
                new = dict(zip([keys[sample] for sample in samples], given, strict=True))
                final = self._final(new)
                unsaved |= len(final) < len(new)
                await self._saver.save(final)
                answers |= new
            if self._weighs_at_once:
                with suppress(EndpointError):  # their verdicts say so, if they differ
                    answers |= await self._weigh(prompt, answers)
            return [answers[key] for key in keys]

        return await self._answered.get((prompt.messages, *keys), work, lambda: unsaved)

    def _final(self, answers: Mapping[str, Answer]) -> dict[str, Completion]:
        """The answers worth storing: an empty or filtered one is, not one that was broken off."""
        return {
            key: answer
            for key, answer in answers.items()
            if isinstance(answer, Completion)
            and (
                (fault := unusable(answer, self._candidate.max_tokens)) is None
                or fault.reason in _FINAL
                or answer.finish_reason in FINISHED - {"length"}
            )
        }


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
        return [record for p in self._prompts for record in self._done.get(p.id, ())]


async def _each(works: Iterable[Callable[[], Coroutine[Any, Any, Result]]]) -> list[Result]:
    """Do work side by side; a single piece without a task of its own."""
    begun = [work() for work in works]
    return [await begun[0]] if len(begun) == 1 else await asyncio.gather(*begun)


async def _despite_warnings(work: Callable[..., Coroutine[Any, Any, Result]], *args: Any) -> Result:
    """Call a coroutine function, for a minute again if a warning broke it off.

    While pytest sets up a test of a strict project, it turns warnings into errors in the whole
    process, threads included.
    """
    for _ in range(600):
        try:
            return await work(*args)
        except Warning:
            await asyncio.sleep(0.1)
    return await work(*args)
