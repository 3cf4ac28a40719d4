"""What a server's failure means, and how long it asks to be left alone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.models.client import errors
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.errors import (
    PromptTooLongError,
    error_for,
    seconds,
)
from refusal_checks.models.client.transport import Access
from tests.fake_server import RESET, STALL, FakeServer, Fault


def test_a_date_that_has_passed_asks_for_nothing() -> None:
    assert seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert seconds("Wed, 21 Oct 2015 07:28:00") == 0


@pytest.mark.parametrize("text", ["", "soon", "-5", "nan", "inf", "1e9", "99999999999999"])
def test_what_is_no_retry_after_asks_for_nothing(text: str) -> None:
    assert seconds(text) == 0


def test_what_a_server_says_can_be_written_to_files() -> None:
    fault = error_for("http://x/v1", 400, '{"error": {"message": "half \\ud83d of a character"}}')
    assert str(fault).encode() == b"http://x/v1: HTTP 400: half ? of a character"


TOO_LONG = {
    "vLLM": (400, "This model's maximum context length is 4096 tokens. However, ..."),
    "SGLang": (400, "The input (9000 tokens) is longer than the model's context length (4096)."),
    "llama.cpp": (400, "request (9001 tokens) exceeds the available context size (4096 tokens)"),
    "TGI": (422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000 and 64"),
    "OpenAI": (400, "context_length_exceeded"),
}


@pytest.mark.parametrize("server", TOO_LONG)
def test_a_prompt_beyond_the_context_is_told_apart(server: str) -> None:
    assert isinstance(error_for("http://x/v1", *TOO_LONG[server]), PromptTooLongError)


QUESTION = (Message("user", "hello"),)
NO_ANSWER = '{"choices": []}'
PATIENCE = 1.0
"""Seconds after which a server has stalled; one on a busy machine has not."""


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited for between tries, which pass at once."""
    found: list[float] = []

    async def note(wait: float) -> None:
        found.append(wait)

    monkeypatch.setattr(errors, "_pause", note)
    return found


def ask(server: FakeServer, n: int = 1, timeout: float = 60) -> Client:
    """Ask once; the client, for what it has counted."""

    async def chat() -> Client:
        async with Client(server.url, "fake", access=Access(timeout=timeout)) as connection:
            await connection.chat(QUESTION, RequestParams(n=n))
            return connection

    return asyncio.run(chat())


@pytest.mark.parametrize(
    ("fault", "attempts", "words"),
    [
        (429, errors.ATTEMPTS_REFUSED, "fault 429"),
        (500, errors.ATTEMPTS, "fault 500"),
        (503, errors.ATTEMPTS, "fault 503"),
        (RESET, errors.ATTEMPTS, "ServerDisconnected|ConnectionReset|ClientOSError"),
        (STALL, errors.ATTEMPTS_STALLED, "Timeout"),
        ("{nothing", errors.ATTEMPTS, "not valid JSON but text/plain: {nothing"),
        ("[" * 100_000, errors.ATTEMPTS, "not valid JSON"),
        ("[]", errors.ATTEMPTS, "malformed answer"),
        ('{"choices": [{"message": 7}]}', errors.ATTEMPTS, "malformed answer"),
        (NO_ANSWER, errors.ATTEMPTS, "asked the server for 1 answers, got 0"),
    ],
)
def test_a_lasting_fault_ends_after_bounded_tries(
    waits: list[float], fault: Fault, attempts: int, words: str
) -> None:
    with FakeServer(faults=[fault] * 20) as server, pytest.raises(EndpointError, match=words):
        ask(server, timeout=PATIENCE if fault == STALL else 60)
    assert len(server.requests) == attempts
    assert len(waits) == attempts - 1


@pytest.mark.parametrize("fault", [429, 500, 503, RESET, STALL, "{nothing", NO_ANSWER])
def test_a_passing_fault_is_cured_and_counted(waits: list[float], fault: Fault) -> None:
    with FakeServer(faults=[fault]) as server:
        usage = ask(server, n=2, timeout=PATIENCE if fault == STALL else 60).meter.usage
    assert (usage.retries, len(waits)) == (1, 1)


def test_waits_double_with_jitter_and_end_at_their_most(waits: list[float]) -> None:
    with FakeServer(faults=[429] * 20) as server, pytest.raises(EndpointError):
        ask(server)
    for number, wait in enumerate(waits):
        least = min(errors.WAIT_INITIAL * 2**number, errors.WAIT_MAX)
        assert least <= wait <= 2 * least
    assert len(set(waits)) == len(waits), "else all that failed together would come together"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("ahead", [7, 3000])
@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured_within_bounds(
    waits: list[float], status: int, ahead: int, as_date: bool
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    headers = {"Retry-After": date if as_date else str(ahead)}
    with FakeServer(faults=[(status, headers)]) as server:
        ask(server)
    (wait,) = waits
    wanted = min(ahead, errors.WAIT_ASKED)
    assert wanted - 6 * as_date <= wait <= wanted + errors.WAIT_INITIAL


def test_all_tries_together_are_bounded_in_time(waits: list[float]) -> None:
    """A server that asks for the longest waits; without its own time-outs, which are given."""
    far = (429, {"Retry-After": "9999"})
    with FakeServer(faults=[far] * 20) as server, pytest.raises(EndpointError):
        ask(server)
    most = errors.WAIT_ASKED + errors.WAIT_MAX
    assert sum(waits) <= most * (errors.ATTEMPTS_REFUSED - 1)
