"""Concurrent work: share one task between callers, stop at the first fault, write in batches."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid, Judgement, Valid

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Runs each piece of work once and shares its result; failed work is run again on request.

    The first caller does the work; later ones wait. Results are kept rather than tasks, which
    take several times the memory.
    """

    def __init__(self) -> None:
        self._done: dict[Hashable, Result] = {}
        self._waiting: dict[Hashable, list[asyncio.Future[None]]] = {}

    async def get(
        self,
        key: Hashable,
        work: Callable[[], Coroutine[Any, Any, Result]],
        keeps: Callable[[Result], bool] = lambda result: True,
    ) -> Result:
        """Return the result for a key, running the work unless it has run or is running.

        Args:
            keeps: whether to keep a result here; callers find the others in the store.
        """
        while key in self._waiting:
            turn = asyncio.get_running_loop().create_future()
            self._waiting[key].append(turn)
            await turn
        if key in self._done:
            return self._done[key]
        self._waiting[key] = []
        try:
            result = await work()
            if keeps(result):
                self._done[key] = result
            return result
        finally:
            for turn in self._waiting.pop(key):
                if not turn.done():  # a cancelled waiter is done
                    turn.set_result(None)


async def gather_or_cancel(*works: Coroutine[Any, Any, Result]) -> list[Result]:
    """Run all awaitables (at least one) concurrently; the first exception cancels the rest.

    A ``TaskGroup`` forgets that its caller was cancelled if a task fails in the same turn of the
    loop, so a caller that handles the exception would go on; this function does not. It raises the
    exception itself, not a group. ``gather`` would leave the other tasks running.
    """
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        if not all(map(_has_result, tasks)):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        fault = None if task.cancelled() else task.exception()
        if fault:
            raise fault
    return [task.result() for task in tasks]


def _has_result(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


LOOK = 0.5
"""Seconds between two checks whether another run has finished its requests."""


Waits = Callable[[Sequence[str], float], None]
"""Called before each such check with the keys and the seconds waited so far, at first 0."""


def _ignore(keys: Sequence[str], seconds: float) -> None:
    """Stand for a caller that need not know who waits."""


class WriteBatcher:
    """Collects what is stored or claimed during one turn of the event loop into one transaction.

    A transaction costs more than its rows do. A caller goes on only once its rows are stored,
    so nothing that was counted is lost.
    """

    def __init__(self, store: Store, waits: Waits = _ignore) -> None:
        self._store = store
        self._waits = waits
        self._completions: dict[str, Completion] = {}
        self._judgements: dict[str, Valid] = {}
        self._waiting: list[tuple[Sequence[str], asyncio.Future[set[str] | None]]] = []

    @asynccontextmanager
    async def claimed(
        self,
        keys: Sequence[str],
        read: Callable[[], Mapping[str, Result]],
        stored: Mapping[str, Result] = {},
    ) -> AsyncIterator[Mapping[str, Result]]:
        """Claim keys for a block, and yield what is stored under them.

        Waits until no other run on the same store works on the missing keys. Inside the block, all
        keys that were not ``stored`` yet are claimed, so other runs wait for them.

        Args:
            read: reads what is stored under keys.
            stored: what was read before, by key.
        """
        left = [key for key in keys if key not in stored]
        try:
            if left:
                stored_keys = await self._turn(left)
                waited = 0.0
                while stored_keys is None:
                    # Release ours while another run holds some, or both could wait forever.
                    self._store.release(left)
                    self._waits(left, waited)
                    await asyncio.sleep(LOOK)
                    waited += LOOK
                    stored_keys = await self._turn(left)
                if stored_keys:
                    stored = read()
            yield stored
        finally:
            self._store.release(left)

    async def judged(
        self, key: str, ask: Callable[[], Coroutine[Any, Any, Judgement]]
    ) -> Judgement:
        """Return the verdict stored under a key, else ask for one; store it if it is valid."""
        read = partial(self._store.judgements, [key])
        async with self.claimed([key], read) as stored:
            if key in stored:
                return stored[key]
            judgement = await ask()
            if not isinstance(judgement, Invalid):
                await self.save(judgements={key: judgement})
        return judgement

    async def save(
        self,
        completions: Mapping[str, Completion] = {},
        judgements: Mapping[str, Valid] = {},
    ) -> None:
        if not (completions or judgements):
            return
        self._completions |= completions
        self._judgements |= judgements
        await self._turn(())

    async def _turn(self, claims: Sequence[str]) -> set[str] | None:
        """The claimed keys for which something is stored; None if another run has one of them."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._write)
        done: asyncio.Future[set[str] | None] = loop.create_future()
        self._waiting.append((claims, done))
        return await done

    def _write(self) -> None:
        # Callers that were cancelled meanwhile need no result.
        waiting = [(keys, done) for keys, done in self._waiting if not done.done()]
        self._waiting = []
        completions, self._completions = self._completions, {}
        judgements, self._judgements = self._judgements, {}
        claims: set[str] = set()
        for keys, _ in waiting:
            claims.update(keys)
        others: set[str] = set()
        stored: set[str] = set()
        try:
            with self._store.transaction():
                self._store.add_completions(completions)
                self._store.add_judgements(judgements)
                if claims:
                    others, stored = self._store.claim(claims)
        except Exception as fault:
            for _, done in waiting:
                done.set_exception(fault)
            return
        for keys, done in waiting:
            if others.isdisjoint(keys):
                done.set_result({key for key in keys if key in stored})
            else:
                done.set_result(None)
