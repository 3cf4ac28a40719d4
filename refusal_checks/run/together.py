"""Work done side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Do all of it, at least one, at one time; the first fault ends the rest.

    Unlike a ``TaskGroup``, which forgets that its caller was cancelled if one of its tasks fails in
    the same turn of the loop, so that whoever handles the fault would go on.

    Raises:
        CancelledError: the caller was cancelled.
        BaseException: the first fault, by itself instead of in a group.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled() and (fault := task.exception()):
            raise fault
