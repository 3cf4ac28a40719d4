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
        self._saved: asyncio.Future[None] | None = None

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
        if self._saved is None:
            loop = asyncio.get_running_loop()
            self._saved = loop.create_future()
            loop.call_soon(self._save, self._saved)
        # A waiter that is cancelled must not cancel the others' future.
        await asyncio.shield(self._saved)

    def _save(self, saved: asyncio.Future[None]) -> None:
        completions, judgements = self._completions, self._judgements
        self._completions, self._judgements, self._saved = {}, {}, None
        try:
            self._store.add_completions(completions)
            self._store.add_judgements(judgements)
        except Exception as fault:
            saved.set_exception(fault)
        else:
            saved.set_result(None)
