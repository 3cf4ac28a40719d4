"""Work that several may want, done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Once(Generic[Result]):
    """Results of work that is done once for all who want it; failed work is done again.

    Whoever comes first does the work. Results stay, and tasks would take several times their space.
    """

    def __init__(self) -> None:
        self._done: dict[Hashable, Result] = {}
        self._waiting: dict[Hashable, list[asyncio.Future[None]]] = {}

    async def get(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of the work of that name."""
        while key in self._waiting:
            self._waiting[key].append(turn := asyncio.get_running_loop().create_future())
            await turn
        if key not in self._done:
            self._waiting[key] = []
            try:
                self._done[key] = await work()
            finally:
                for turn in self._waiting.pop(key):
                    if not turn.done():
                        turn.set_result(None)
        return self._done[key]
