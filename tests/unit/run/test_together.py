"""Work side by side: the first fault, and a cancellation that comes with it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from refusal_checks.run.together import together


async def fails() -> None:
    raise ValueError("it fails")


def test_the_first_fault_ends_the_rest_and_comes_by_itself() -> None:
    with pytest.raises(ValueError, match="it fails"):
        asyncio.run(together(asyncio.sleep(60), fails()))


def test_work_that_fails_while_it_is_ended_does_not_hide_the_first_fault() -> None:
    async def fails_late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError("too late")

    with pytest.raises(ValueError, match="it fails"):
        asyncio.run(together(fails_late(), fails()))


def test_a_cancellation_wins_over_a_fault_of_the_same_turn() -> None:
    async def caller() -> None:
        task = asyncio.current_task()
        assert task
        with suppress(ValueError):
            await together(cancels(task), asyncio.sleep(60))
        pytest.fail("it goes on")

    async def cancels(task: asyncio.Task[None]) -> None:
        task.cancel()
        await fails()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(caller())
