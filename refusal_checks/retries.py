"""When a request is tried again: bounded in number and in the time between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from refusal_checks.faults import TransientError

Result = TypeVar("Result")

WAIT_INITIAL = 0.5
"""Seconds before the second attempt, at least; each further wait is twice as long."""

WAIT_MAX = 15.0
"""Most seconds between two attempts, unless the server asks for more."""

WAIT_ASKED = 60.0
"""Most seconds that a server's Retry-After is waited for."""


def _after(fault: TransientError, attempts: int) -> float:
    """Seconds to wait after so many attempts: twice as long each time, with jitter, so that what
    failed together does not come together."""
    growing = min(WAIT_INITIAL * 2.0 ** (attempts - 1), WAIT_MAX)
    return max(growing, min(fault.after, WAIT_ASKED)) + random.uniform(0, growing)


def _fault(state: RetryCallState) -> TransientError:
    fault = state.outcome.exception() if state.outcome else None
    assert isinstance(fault, TransientError)
    return fault


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


# One object for all requests: what it keeps of a call lives in the call's own state. The attempts
# that it counts come after the first one, which is not its own.
_again = AsyncRetrying(
    retry=retry_if_exception_type(TransientError),
    wait=lambda state: _after(_fault(state), state.attempt_number + 1),
    stop=lambda state: state.attempt_number + 1 >= _fault(state).attempts,
    sleep=lambda seconds: _pause(seconds),
    reraise=True,
)


async def retrying(work: Callable[..., Awaitable[Result]], *args: Any) -> Result:
    """Call a coroutine function, again after a TransientError; raises the last one.

    The first attempt is made without tenacity, whose preparations would cost a tenth of all that
    is done for a request.
    """
    try:
        return await work(*args)
    except TransientError as fault:
        if fault.attempts <= 1:
            raise
        await _pause(_after(fault, 1))
    found: Result = await _again(work, *args)
    return found
