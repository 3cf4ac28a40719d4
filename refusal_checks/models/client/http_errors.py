"""What a server's failure means: whether another try may cure it, and when that makes sense."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from refusal_checks.core.errors import EndpointError

ATTEMPTS = 4
"""How often one request is tried where the server is failing or unreachable."""

ATTEMPTS_STALLED = 2
"""How often where it said nothing until the time-out, which has cost that much each time."""

ATTEMPTS_REFUSED = 8
"""How often where it says that requests come too fast."""

_TOO_LONG = re.compile(r"context[ _](length|size|window)|max_new_tokens", re.IGNORECASE)
"""How vLLM, SGLang, llama.cpp, TGI and OpenAI say that a prompt does not fit."""

_NEVER = 501
"""The server error that no later try cures: not implemented."""


class PromptTooLongError(EndpointError):
    """The prompt and the asked-for answer do not fit the model's context."""


class TransientError(EndpointError):
    """Worth another try: a 5xx, a lost connection, an answer that is malformed.

    Attributes:
        attempts: how often to try a request that ends so.
        after: seconds that the server asks to wait for, at least 0; 0 where it does not.
    """

    attempts = ATTEMPTS

    def __init__(self, message: str, status: int = 0, after: float = 0.0) -> None:
        super().__init__(message, status)
        self.after = after


class StalledError(TransientError):
    """The server did not answer in time."""

    attempts = ATTEMPTS_STALLED


class TooFastError(TransientError):
    """The server takes no more requests for now (429)."""

    attempts = ATTEMPTS_REFUSED


def error_for(url: str, status: int, text: str, retry_after: str = "") -> EndpointError:
    """The exception that an HTTP error means.

    Args:
        retry_after: the header of that name, empty without.
    """
    message = f"{url}: HTTP {status}: {error_words(text)}"
    if status in (400, 413, 422) and _TOO_LONG.search(text):
        return PromptTooLongError(message, status)
    if status == 429:
        return TooFastError(message, status, seconds(retry_after))
    if status >= 500 and status != _NEVER:
        return TransientError(message, status, seconds(retry_after))
    return EndpointError(message, status)


def seconds(retry_after: str) -> float:
    """What a Retry-After header (RFC 9110: seconds, or a date) asks for; 0 for anything else."""
    if re.fullmatch(r"\d{1,9}(\.\d*)?", retry_after.strip()):
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def error_words(text: str) -> str:
    """The server's own words, cut to a length that fits a message."""
    try:
        found = json.loads(text)
        error = found.get("error", found) if isinstance(found, dict) else found
        message = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, RecursionError):
        message = text
    return str(message)[:500]


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
