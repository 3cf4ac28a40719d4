"""When a request is tried again: bounded in number and in the time between."""

from __future__ import annotations

import random

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from refusal_checks.faults import TransientError

WAIT_INITIAL = 0.5
"""Seconds before the second attempt, at least; each further wait is twice as long."""

WAIT_MAX = 15.0
"""Most seconds between two attempts, unless the server asks for more."""

WAIT_ASKED = 60.0
"""Most seconds that a server's Retry-After is waited for."""


def _fault(state: RetryCallState) -> TransientError:
    fault = state.outcome.exception() if state.outcome else None
    assert isinstance(fault, TransientError)
    return fault


def _wait(state: RetryCallState) -> float:
    """Twice as long each time, with jitter, so that what failed together does not come together."""
    growing = min(WAIT_INITIAL * 2.0 ** (state.attempt_number - 1), WAIT_MAX)
    wait = max(growing, min(_fault(state).after, WAIT_ASKED))
    return wait + random.uniform(0, growing)


def _stop(state: RetryCallState) -> bool:
    return state.attempt_number >= _fault(state).attempts


# One object for all requests: what it keeps of a call lives in the call's own state.
retrying = AsyncRetrying(
    retry=retry_if_exception_type(TransientError), wait=_wait, stop=_stop, reraise=True
)
"""Calls a coroutine function, again after a TransientError; raises the last one."""
