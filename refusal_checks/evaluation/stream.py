"""The evaluation: prompts become answers, judgements and records, through the store.

All prompts of all selected benchmarks stream through candidate and judges; an answer is judged as
soon as it exists, and nothing waits for a batch or a benchmark to end.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.errors import EndpointError, InfrastructureError
from refusal_checks.core.on_disk import Texts
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote, unusable
from refusal_checks.core.verdicts import FINISHED, Invalid, Judgement, Reason
from refusal_checks.evaluation.aio import SingleFlight, WriteBatcher, gather_or_cancel
from refusal_checks.evaluation.planning import Task, second_judge_sample, verdict_key
from refusal_checks.judges import cascade
from refusal_checks.judges.judge import Judge
from refusal_checks.metrics.refusal import weights_decide
from refusal_checks.models.candidates import Answer
from refusal_checks.results.events import Progress

Finished = Callable[[str, Sequence[Record]], None]
"""Called with a benchmark's name and all its records once they are complete."""

Enough = Callable[[str, Sequence[Record]], bool]
"""Called with a benchmark's name and the records of each prompt, in the plan's order; returns True
if the benchmark needs no further prompt."""

_FINAL = (Reason.EMPTY_ANSWER, Reason.DEGENERATE_ANSWER, Reason.UNCLOSED_REASONING)
"""Faults of an answer that asking again would only repeat, since its seed is the same."""


FIRST = 20
"""Unreadable answers, with no readable one, after which a judge is stopped."""


class UnreadableError(InfrastructureError):
    """A judge whose first answers all lie outside the labels, so that the rest would, too."""

    def __init__(self, judge: Judge, detail: str) -> None:
        why, _, _ = detail.partition(";")
        super().__init__(
            f"turn off the thinking of judge {judge.name}, for example with "
            "--set judge.template_variables.enable_thinking=false, or name another judge: "
            f"none of its first {FIRST} answers is a rating, so it was not asked for more ({why})"
        )
        self.judge = judge


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
        answered: SingleFlight[list[Answer]] | None = None,
    ) -> None:
        self._task = task
        self._candidate = task.candidate
        self._saver = WriteBatcher(task.store)
        self._in_flight = in_flight
        self._finished = finished
        self._progress = progress or Progress()
        self._progress.plan({name: len(prompts) for name, prompts in task.plan.items()})
        self._benchmarks = {
            name: _Benchmark(name, prompts, enough)
            for name, prompts in task.plan.items()
        }
        whole = task.whole or task.plan
        self._second_judge_samples = {
            name: second_judge_sample(task.judges[name], name, whole[name])
            for name in task.plan
        }
        self._queue = (
            (name, prompt) for name, prompts in task.plan.items() for prompt in prompts
        )
        self._may_judge = may_judge or asyncio.Event()
        if may_judge is None:
            self._may_judge.set()
        self._keeps_answering = enough is None
        self._unjudged: deque[tuple[str, Prompt, list[Answer]]] = deque()
        self._answered = answered or SingleFlight[list[Answer]]()
        self._only_answers = False
        self._verdicts = SingleFlight[Judgement]()
        self._texts = Texts()
        self._readable = set[Judge]()
        self._outside = Counter[Judge]()

    async def run(self) -> None:
        """Evaluate everything, once; an exception that is not one answer's fault ends it.

        UnreadableError is one of them.
        """
        kinds = self._work, self._catch_up
        await gather_or_cancel(
            *(work() for work in kinds for _ in range(self._in_flight))
        )

    async def answer(self) -> None:
        """Ask for all answers that are missing, weigh them, and judge none."""
        self._only_answers = True
        await gather_or_cancel(*(self._work() for _ in range(self._in_flight)))

    async def _work(self) -> None:
        for name, prompt in self._queue:
            if not self._benchmarks[name].start():
                continue
            answers = await self._answers(prompt)
            self._progress.answered(name)
            if self._only_answers:
                continue
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

    async def _finish(
        self, name: str, prompt: Prompt, answers: Sequence[Answer]
    ) -> None:
        """Judge a prompt's answers; the last of a benchmark complete it."""
        benchmark = self._benchmarks[name]
        records = await self._judged(name, prompt, answers)
        self._progress.judged(name, records)
        if benchmark.add(prompt, records):
            self._progress.finished(name)
            self._finished(name, benchmark.records())

    async def _judged(
        self, name: str, prompt: Prompt, answers: Sequence[Answer]
    ) -> list[Record]:
        judges = self._task.judges[name]
        formed = cascade.of(judges)
        shown = {
            i: as_judged(prompt, a)
            for i, a in enumerate(answers)
            if isinstance(a, Completion)
        }
        keys = {
            (judge.name, sample): verdict_key(judge, asked, answer.text)
            for judge in judges
            if judge.identity is not None
            for sample, (asked, answer) in shown.items()
        }
        stored = self._task.store.judgements(set(keys.values()))

        async def vote(judge: Judge, sample: int) -> Vote:
            asked, answer = shown[sample]
            key = keys.get((judge.name, sample), "")
            verdict = judge.without_asking(asked, answer) or stored.get(key)
            if verdict is None and judge.identity is None:
                verdict = await judge.judge(asked, answer)
            elif verdict is None:
                ask = partial(judge.judge, asked, answer)
                work = partial(self._saver.judged, key, ask)
                verdict = await self._verdicts.get(
                    key, work, lambda new: isinstance(new, Invalid)
                )
            self._require_readable(judge, verdict)
            return Vote(judge.name, verdict)

        async def vote_all(sample: int) -> Sequence[Vote]:
            if formed is None:
                return await gather_or_cancel(
                    *(vote(judge, sample) for judge in judges)
                )
            first = await vote(formed.first, sample)
            if prompt.id in self._second_judge_samples[name] or formed.is_unsure(
                first.judgement
            ):
                return first, await vote(formed.second, sample)
            return (first,)

        async def record(sample: int, answer: Answer) -> Record:
            if isinstance(answer, Invalid):
                return Record(prompt, sample, None, answer)
            fault = unusable(answer, self._candidate.max_tokens)
            if fault is None:
                votes = tuple(await vote_all(sample))
            else:
                given = ((judge.name, judge.without_answer(answer)) for judge in judges)
                votes = tuple(Vote(name, verdict) for name, verdict in given if verdict)
                if len(votes) < len(judges):
                    return Record(prompt, sample, answer, fault)
            judgement = cascade.decide(judges, votes)
            return Record(
                prompt, sample, answer, judgement, votes if len(votes) > 1 else ()
            )

        records = await gather_or_cancel(*map(record, range(len(answers)), answers))
        return list(map(self._light, await self._weighed(prompt, records)))

    def _require_readable(self, judge: Judge, verdict: Judgement) -> None:
        """Raise UnreadableError if a judge's first answers all lie outside its labels.

        A verdict that is stored counts as one that can be read: where some were read in another
        run, only those that could not be are asked for again.
        """
        if not isinstance(verdict, Invalid):
            self._readable.add(judge)
        elif verdict.reason is Reason.OUTSIDE_LABELS and judge not in self._readable:
            self._outside[judge] += 1
            if self._outside[judge] >= FIRST:
                raise UnreadableError(judge, verdict.detail)

    def _light(self, record: Record) -> Record:
        kept = record.completion and self._texts.keep(record.completion)
        return record if kept is record.completion else replace(record, completion=kept)

    async def _weighed(self, prompt: Prompt, records: list[Record]) -> list[Record]:
        """The records, with the answers weighed if that decides anything."""
        if not any(
            record.completion and record.completion.token_ids for record in records
        ):
            return records
        said = [
            each
            for r in records
            for each in (r.judgement, *(v.judgement for v in r.votes))
        ]
        keys = self._candidate.keys(prompt)
        given = {
            key: record.completion
            for key, record in zip(keys, records, strict=True)
            if record.completion and record.completion.token_ids
        }
        weighed: Mapping[str, Completion] = {}
        fault: Invalid | None = None
        if self._task.weighs_all or weights_decide(said):
            try:
                weighed = await self._weigh(prompt, given)
            except EndpointError as problem:
                fault = Invalid(Reason.ENGINE_ERROR, f"no log-probabilities: {problem}")
        for place, key in enumerate(keys):
            if key in given:
                found = weighed.get(key) or replace(given[key], token_ids="")
                record = replace(records[place], completion=found)
                records[place] = (
                    replace(record, judgement=fault, votes=()) if fault else record
                )
        return records

    async def _weigh(
        self, prompt: Prompt, answers: Mapping[str, Answer]
    ) -> Mapping[str, Completion]:
        given = {
            k: a
            for k, a in answers.items()
            if isinstance(a, Completion) and a.token_ids
        }

        def weighed() -> dict[str, Completion]:
            known = self._candidate.known([prompt], self._task.store).items()
            own = {k: a for k, a in known if k in given and a.text == given[k].text}
            return {key: answer for key, answer in own.items() if not answer.token_ids}

        async with self._saver.claimed(list(given), weighed) as found:
            left = {key: answer for key, answer in given.items() if key not in found}
            new = await self._candidate.score_logprobs(prompt, left) if left else {}
            await self._saver.save(self._final(new))
        return {**found, **new}

    async def _answers(self, prompt: Prompt) -> list[Answer]:
        """The prompt's answers; equal prompts are answered once, even those of two benchmarks."""
        keys, unsaved = self._candidate.keys(prompt), False

        async def work() -> list[Answer]:
            nonlocal unsaved
            known = partial(self._candidate.known, [prompt], self._task.store)
            async with self._saver.claimed(keys, known, known()) as found:
                answers: dict[str, Answer] = dict(found)
                missing = [
                    sample for sample, key in enumerate(keys) if key not in answers
                ]
                # One request asks for each run of consecutive samples.
                for _, run in groupby(
                    enumerate(missing), lambda pair: pair[1] - pair[0]
                ):
                    samples = [sample for _, sample in run]
                    given = await self._candidate.answer(
                        prompt, samples[0], len(samples)
                    )
                    new = dict(
                        zip([keys[sample] for sample in samples], given, strict=True)
                    )
                    final = self._final(new)
                    unsaved |= len(final) < len(new)
                    await self._saver.save(final)
                    answers |= new
            if self._only_answers:
                with suppress(EndpointError):  # their verdicts say so, if they differ
                    answers |= await self._weigh(prompt, answers)
            return [answers[key] for key in keys]

        return await self._answered.get(
            (prompt.messages, *keys), work, lambda _: unsaved
        )

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

    def __init__(
        self, name: str, prompts: Sequence[Prompt], enough: Enough | None
    ) -> None:
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
        return len(self._done) == (
            self._started if self._stopped else len(self._prompts)
        )

    def records(self) -> list[Record]:
        return [record for p in self._prompts for record in self._done.get(p.id, ())]
