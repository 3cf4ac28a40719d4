"""A candidate whose answers outlive it: its engine stops before the judge's engine starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refusal_checks.candidates import Answer, Candidate
from refusal_checks.conversation import Prompt
from refusal_checks.records import Completion
from refusal_checks.store import Store


class CollectingCandidate:
    """Passes a candidate's answers on and keeps those that it was asked for.

    The store keeps answers alone; here is also why there was none.

    Attributes:
        is_gone: give what was collected and ask for nothing any more.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.name = candidate.name
        self.max_tokens = candidate.max_tokens
        self.is_gone = False
        self._candidate = candidate
        self._answers: dict[str, Answer] = {}

    def keys(self, prompt: Prompt) -> Sequence[str]:
        """See ``Candidate.keys``."""
        return self._candidate.keys(prompt)

    def known(self, prompts: Sequence[Prompt], store: Store) -> Mapping[str, Completion]:
        """See ``Candidate.known``."""
        return self._candidate.known(prompts, store)

    async def answer(self, prompt: Prompt, first: int, count: int) -> Sequence[Answer]:
        """See ``Candidate.answer``."""
        keys = self.keys(prompt)[first : first + count]
        if not self.is_gone:
            found = await self._candidate.answer(prompt, first, count)
            self._answers.update(zip(keys, found, strict=False))
        return [self._answers[key] for key in keys]
