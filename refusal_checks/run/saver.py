"""Stores what an evaluation gets: one transaction for all that comes at one time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Valid


class Saver:
    """Stores everything that arrives during one turn of the event loop in one transaction.

    A transaction costs more than what it writes. Whoever saves something goes on only once it is
    stored, so what has been counted is never lost.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._completions: dict[str, Completion] = {}
        self._judgements: dict[str, Valid] = {}
        self._waiting: list[asyncio.Future[None]] = []

    async def completions(self, completions: Mapping[str, Completion]) -> None:
        """Store completions by content key; raises StoreError."""
        self._completions |= completions
        if completions:
            await self._turn_end()

    async def judgement(self, key: str, judgement: Valid) -> None:
        """Store one judgement under its content key; raises StoreError."""
        self._judgements[key] = judgement
        await self._turn_end()

    async def _turn_end(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._save)
        self._waiting.append(saved := loop.create_future())
        await saved

    def _save(self) -> None:
        waiting, self._waiting = self._waiting, []
        completions, self._completions = self._completions, {}
        judgements, self._judgements = self._judgements, {}
        fault = self._fault(completions, judgements)
        for saved in waiting:
            if saved.done():  # its waiter was cancelled
                continue
            if fault is None:
                saved.set_result(None)
            else:
                saved.set_exception(fault)

    def _fault(
        self, completions: Mapping[str, Completion], judgements: Mapping[str, Valid]
    ) -> Exception | None:
        """Store these; what prevented it."""
        try:
            self._store.add_completions(completions)
            self._store.add_judgements(judgements)
        except Exception as fault:
            return fault
        return None
