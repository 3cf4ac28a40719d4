"""Get answers to prompts from the store or the candidate; store new ones as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from refusal_checks.core.judgements import FINISHED
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, find_fault
from refusal_checks.io.store import Store
from refusal_checks.models.candidates import Answer, Candidate
from refusal_checks.run.concurrency import SingleFlight, WriteBatcher


class Sampler:
    """Gets a prompt's answers. Equal prompts are answered once, even across benchmarks.

    Args:
        answered: answers of an earlier turn by prompt and keys, if the candidate is no longer up.
    """

    def __init__(
        self,
        candidate: Candidate,
        store: Store,
        writer: WriteBatcher,
        answered: SingleFlight[list[Answer]] | None = None,
    ) -> None:
        self._candidate = candidate
        self._store = store
        self._writer = writer
        self._answered = answered or SingleFlight[list[Answer]]()

    async def answers(self, prompt: Prompt) -> list[Answer]:
        """The prompt's answers in sample order."""
        keys = self._candidate.keys(prompt)
        has_unstored = False

        async def work() -> list[Answer]:
            nonlocal has_unstored
            # Inside the flight: another benchmark may have stored them while this one waited.
            stored = self._candidate.stored_answers([prompt], self._store)
            answers: dict[str, Answer] = dict(stored)
            missing = [n for n, key in enumerate(keys) if key not in answers]
            for first, count in _runs(missing):
                given = await self._candidate.answer(prompt, first, count)
                asked = keys[first : first + count]
                new = dict(zip(asked, given, strict=True))
                final = self._final(new)
                if len(final) < len(new):
                    has_unstored = True
                # Before a judge reads them: after a kill, no verdict lacks its answer.
                await self._writer.save(final)
                answers |= new
            return [answers[key] for key in keys]

        # Later callers find answers in the store, so only failures are kept here.
        return await self._answered.get(
            (prompt.messages, *keys), work, keeps=lambda _: has_unstored
        )

    def _final(self, answers: Mapping[str, Answer]) -> dict[str, Completion]:
        """The answers to store, including empty and filtered ones but none that was broken off."""
        final = {}
        for key, answer in answers.items():
            if isinstance(answer, Completion) and self._is_final(answer):
                final[key] = answer
        return final

    def _is_final(self, answer: Completion) -> bool:
        fault = find_fault(answer, self._candidate.max_tokens)
        if fault is None or fault.reason.is_final:
            return True
        # A model that ends an unusable answer by itself would do so again. A limit below the one
        # that was asked for is the server's, and may be raised before the next run.
        return answer.finish_reason in FINISHED - {"length"}


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first number and length of each consecutive series; one request asks for a series."""
    start = 0
    for place, number in enumerate(numbers, 1):
        if place == len(numbers) or numbers[place] != number + 1:
            yield numbers[start], place - start
            start = place
