"""Concurrent work: share one task between callers, stop at the first fault, write in batches."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from refusal_checks.core.judgements import Invalid, Judgement, Valid
from refusal_checks.core.records import Completion
from refusal_checks.io.store import Store

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
        # A loop: of those that wake, the first may do the work again, as its result was not kept.
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


class CancellableWork:
    """Work in an event loop of its own, which another thread may cancel."""

    def __init__(self) -> None:
        self._is_cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do the work; may be called once.

        Raises:
            CancelledError: it was cancelled, perhaps before this call.
        """

        async def run() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            # Set first by ``cancel``, which finds no task in a loop that has not begun.
            if self._is_cancelled:
                raise asyncio.CancelledError
            await work()

        asyncio.run(run())

    def cancel(self) -> None:
        """Cancel the work, or prevent it if it has not begun; may be called from any thread."""
        self._is_cancelled = True
        with suppress(RuntimeError):  # the loop may have ended by itself
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)


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
            # Until they have ended: they hold connections, and the caller may repeat their work.
            await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        fault = None if task.cancelled() else task.exception()
        if fault:
            raise fault
    return [task.result() for task in tasks]


def _has_result(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


_RARELY = (20_000, 20, 100)
"""Thresholds of Python's garbage collector during runs. A run holds hundreds of thousands of values
without cycles; with the usual thresholds, the search for cycles takes a third of its time."""


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Within the block, search for cycles of garbage rarely."""
    usual = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class WriteBatcher:
    """Collects what is stored during one turn of the event loop into one transaction.

    A transaction costs more than its rows do. A caller goes on only once its rows are stored,
    so nothing that was counted is lost.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: set[str] = set()  # keys of verdicts
        self._completions: dict[str, Completion] = {}
        self._judgements: dict[str, Valid] = {}
        self._waiting: list[asyncio.Future[None]] = []

    async def ask_and_store(
        self, key: str, ask: Callable[[], Coroutine[Any, Any, Judgement]]
    ) -> Judgement:
        """Ask for a verdict that was not in the store, and store it if it is valid.

        Return the stored one if another caller has written it meanwhile.
        """
        # The store was searched before; only what came since is worth another query.
        stored = self._store.judgements([key]) if key in self._written else {}
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
        loop = asyncio.get_running_loop()
        if not self._waiting:
            # After the callbacks that are ready now: their rows share the transaction.
            loop.call_soon(self._write)
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append(done)
        await done

    def _write(self) -> None:
        # Callers that were cancelled meanwhile need no result.
        waiting = [done for done in self._waiting if not done.done()]
        self._waiting = []
        completions, self._completions = self._completions, {}
        judgements, self._judgements = self._judgements, {}
        try:
            with self._store.transaction():
                self._store.add_completions(completions)
                self._store.add_judgements(judgements)
            self._written.update(judgements)
        except Exception as fault:
            # Every caller raises it: none may go on as if its rows were stored.
            for done in waiting:
                done.set_exception(fault)
            return
        for done in waiting:
            done.set_result(None)
