"""Get verdicts on answers from rules, the store or judges; store new ones as they arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from refusal_checks.core.judgements import Invalid, Judgement
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote, combine
from refusal_checks.judges.base64_text import decode_exchange
from refusal_checks.judges.judge import Judge
from refusal_checks.models.candidates import Answer
from refusal_checks.run.concurrency import SingleFlight, WriteBatcher, gather_or_cancel
from refusal_checks.run.plan import Task, verdict_key


@dataclass(frozen=True)
class _Exchange:
    """A prompt and an answer as judges see them, and the store keys of the verdicts.

    Attributes:
        keys: keys by judge; a judge without an identity has none.
    """

    prompt: Prompt
    answer: Completion
    keys: Mapping[str, str]


class JudgePanel:
    """Asks the judges of a task's benchmarks for verdicts; equal answers are judged once."""

    def __init__(self, task: Task, writer: WriteBatcher) -> None:
        self._task = task
        self._writer = writer
        self._verdicts = SingleFlight[Judgement]()

    async def records(
        self, name: str, prompt: Prompt, answers: Sequence[Answer]
    ) -> list[Record]:
        """Judge a prompt's answers; return their records in order."""
        exchanges = {
            sample: self._exchange(name, prompt, answer)
            for sample, answer in enumerate(answers)
            if isinstance(answer, Completion)
        }
        keys: set[str] = set()
        for exchange in exchanges.values():
            keys.update(exchange.keys.values())
        # One query for a prompt, instead of one for each of its verdicts.
        stored = self._task.store.judgements(keys)
        return await gather_or_cancel(
            *(
                self._record(
                    name, prompt, sample, answer, exchanges.get(sample), stored
                )
                for sample, answer in enumerate(answers)
            )
        )

    def _exchange(self, name: str, prompt: Prompt, answer: Completion) -> _Exchange:
        shown, read = decode_exchange(prompt, answer)
        keys = {
            judge.name: verdict_key(judge, shown, read.text)
            for judge in self._task.judges[name]
            if judge.identity is not None
        }
        return _Exchange(shown, read, keys)

    async def _record(
        self,
        name: str,
        prompt: Prompt,
        sample: int,
        answer: Answer,
        exchange: _Exchange | None,
        stored: Mapping[str, Judgement],
    ) -> Record:
        if isinstance(answer, Invalid):
            return Record(prompt, sample, None, answer)
        assert exchange, "there is an answer"
        given = self._task.without_judging(name, answer)
        if given is not None:
            return Record(prompt, sample, answer, given)
        votes = await gather_or_cancel(
            *(self._vote(judge, exchange, stored) for judge in self._task.judges[name])
        )
        # A single judge's vote is the verdict, and would be written twice.
        shown = tuple(votes) if len(votes) > 1 else ()
        return Record(prompt, sample, answer, combine(votes), shown)

    async def _vote(
        self, judge: Judge, exchange: _Exchange, stored: Mapping[str, Judgement]
    ) -> Vote:
        verdict = judge.judge_offline(exchange.prompt, exchange.answer)
        key = exchange.keys.get(judge.name)
        if verdict is None and key is not None:
            verdict = stored.get(key)
        if verdict is None:
            verdict = await self._ask(judge, exchange, key)
        return Vote(judge.name, judge.apply_settings(exchange.prompt, verdict))

    async def _ask(
        self, judge: Judge, exchange: _Exchange, key: str | None
    ) -> Judgement:
        """Ask a judge; verdicts of a judge without an identity are not stored."""
        ask = partial(judge.judge, exchange.prompt, exchange.answer)
        if key is None:
            return await ask()
        # Later callers find a verdict in the store, so only invalid judgements are kept here.
        return await self._verdicts.get(
            key,
            partial(self._writer.ask_and_store, key, ask),
            keeps=lambda verdict: isinstance(verdict, Invalid),
        )
