"""Answers and verdicts into the store: those of one moment in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from refusal_checks.records import Completion, Valid
from refusal_checks.store import Store


class Saver:
    """Stores what one turn of the event loop brings at the turn's end.

    A transaction costs more than what it writes. Nobody waits for another: whoever saves something
    goes on once it is stored, so what has been counted is never lost.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._completions: dict[str, Completion] = {}
        self._judgements: dict[str, Valid] = {}
        self._saved: asyncio.Future[None] | None = None

    async def completions(self, found: Mapping[str, Completion]) -> None:
        """Store completions by content key.

        Raises:
            StoreError: they cannot be stored.
        """
        self._completions |= found
        if found:
            await self._turn_end()

    async def judgement(self, key: str, judgement: Valid) -> None:
        """Store one judgement under its content key.

        Raises:
            StoreError: it cannot be stored.
        """
        self._judgements[key] = judgement
        await self._turn_end()

    async def _turn_end(self) -> None:
        if self._saved is None:
            loop = asyncio.get_running_loop()
            self._saved = loop.create_future()
            loop.call_soon(self._save, self._saved)
        # One that is cancelled must not take the others' future with it.
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
