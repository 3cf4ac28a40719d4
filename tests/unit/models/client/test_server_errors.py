"""What a server's failure means, and how long it asks to be left alone."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.models.client import server_errors, transport
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.server_errors import (
    FilteredError,
    PromptTooLongError,
    make_error,
    retry_after_seconds,
)
from refusal_checks.models.client.transport import ConnectionSettings
from refusal_checks.models.model_files import context_length
from refusal_checks.models.model_names import Served
from tests.support.cases import cases_of
from tests.support.fake_server import RESET, STALL, FakeServer, Fault

CASES = cases_of(__file__)

PAST = "Wed, 21 Oct 2015 07:28:00"


@pytest.mark.parametrize(
    "text",
    [PAST, f"{PAST} GMT", "soon", "-5", "nan", "inf", "1e9"],
)
def test_what_is_no_retry_after_asks_for_nothing(text: str) -> None:
    assert retry_after_seconds(text) == 0


def test_of_a_web_page_an_error_quotes_the_title() -> None:
    page = (
        "<!DOCTYPE html>\n<html><head><title>502\nBad Gateway</title></head><body>..."
    )
    words = 'HTTP 502: a web page, "502 Bad Gateway"'
    assert str(make_error("http://x/v1", 502, page)).endswith(words)


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (401, "", "set MY_KEY (or OPENAI_API_KEY) to a key that the server accepts: HTTP 401: "
         "an empty reply"),
        (503, '{"error": "busy"}', "look into the server's log: it failed: HTTP 503: busy"),
        (400, '{"message": "max_tokens too large"}', "lower sampling.max_tokens (of a judge "
         "judge.max_tokens), or give the server a larger context: HTTP 400: max_tokens too large"),
        (400, '{"detail": [{"loc": ["seed"]}]}', 'HTTP 400: {"detail": [{"loc": ["seed"]}]}'),
    ],
)  # fmt: skip
def test_an_error_says_what_to_do_before_what_the_server_said(
    status: int, text: str, words: str
) -> None:
    fault = make_error("http://x/v1", status, text, key_variable="MY_KEY")
    assert str(fault) == f"http://x/v1: {words}"


QUESTION = (Message("user", "hello"),)
NO_ANSWER = '{"choices": []}'
NO_NUMBER = (
    '{"choices": [{"message": {"content": "a"}, "finish_reason": "stop", '
    '"logprobs": {"content": [{"token": "a", "logprob": NaN}]}}]}'
)
PATIENCE = 0.4
"""Seconds after which a server has stalled; one on a busy machine has not."""


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited for between tries, which pass at once."""
    found: list[float] = []

    async def note(wait: float) -> None:
        found.append(wait)

    monkeypatch.setattr(server_errors, "sleep", note)
    return found


def ask(server: FakeServer, n: int = 1, timeout: float = 60) -> Client:
    """Ask once; the client, for what it has counted."""

    async def chat() -> Client:
        async with Client(
            server.url, "fake", connection=ConnectionSettings(timeout=timeout)
        ) as connection:
            await connection.chat(QUESTION, RequestParams(n=n))
            return connection

    return asyncio.run(chat())


@pytest.mark.parametrize(
    ("fault", "attempts", "words"),
    [
        (400, 1, "fault 400"),
        (401, 1, "HTTP 401"),
        (429, server_errors.ATTEMPTS_BUSY, "fault 429"),
        (500, server_errors.ATTEMPTS, "fault 500"),
        (RESET, server_errors.ATTEMPTS, "ServerDisconnected|ConnectionReset|ClientOSError"),
        (STALL, server_errors.ATTEMPTS_STALLED, "Timeout"),
        ("data: {}\n\ndata: [DONE]", server_errors.ATTEMPTS,
         "not valid JSON but text/plain: data: {}"),
        ("[" * 100_000, server_errors.ATTEMPTS, "not valid JSON"),
        ("9" * 5000, server_errors.ATTEMPTS, "not valid JSON"),
        ('{"choices": [{"message": 7}]}', server_errors.ATTEMPTS, "malformed answer"),
        (NO_ANSWER, server_errors.ATTEMPTS, "reply has 0 answers in place of 1"),
        ('{"error": {"message": "no credit", "code": 402}}', server_errors.ATTEMPTS,
         "malformed answer .*: no credit"),
        (NO_NUMBER, server_errors.ATTEMPTS, "malformed answer .*: the sum of the log-prob"),
        ('{"object": "list"}', server_errors.ATTEMPTS, ': {"object": "list"}$'),
        ("", server_errors.ATTEMPTS, ": an empty reply$"),
    ],
)  # fmt: skip
def test_a_lasting_fault_ends_after_bounded_tries(
    waits: list[float], fault: Fault, attempts: int, words: str
) -> None:
    with (
        FakeServer(faults=[fault] * 20) as server,
        pytest.raises(EndpointError, match=words),
    ):
        ask(server, timeout=PATIENCE if fault == STALL else 60)
    assert len(server.requests) == attempts
    assert len(waits) == attempts - 1


@pytest.mark.parametrize("fault", [408, 429, RESET, NO_ANSWER])
def test_a_passing_fault_is_cured_and_counted(waits: list[float], fault: Fault) -> None:
    with FakeServer(faults=[fault]) as server:
        usage = ask(server, n=2).usage
    assert (usage.retries, len(waits)) == (1, 1)


@pytest.mark.parametrize(
    ("status", "ahead", "as_date"), [(429, 7, False), (503, 7, True), (429, 3000, True)]
)
def test_retry_after_is_honoured_within_bounds(
    waits: list[float], status: int, ahead: int, as_date: bool
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    headers = {"Retry-After": date if as_date else str(ahead)}
    with FakeServer(faults=[(status, headers)]) as server:
        ask(server)
    (wait,) = waits
    wanted = min(ahead, server_errors.WAIT_ASKED)
    assert wanted - 6 * as_date <= wait <= wanted + server_errors.WAIT_INITIAL


def test_a_server_that_refuses_for_too_long_is_given_up_until_it_had_a_rest(
    monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    """Each request has its attempts, and all of them together have a bound, too."""
    clock = [0.0]
    monkeypatch.setattr(transport, "monotonic", lambda: clock[0])

    async def ask_often(server: FakeServer) -> None:
        settings = ConnectionSettings(outage=600)
        async with Client(server.url, "fake", connection=settings) as connection:
            for now, words in (
                (0, "fault 503"),
                (3600, "fault 503"),  # nobody asked meanwhile
                (3900, "fault 503"),
                (4201, r"limits\.outage_timeout"),
            ):
                clock[0] = now
                with pytest.raises(EndpointError, match=words):
                    await connection.chat(QUESTION, RequestParams())

    with FakeServer(faults=[503] * 1000) as server:
        asyncio.run(ask_often(server))
    assert len(server.requests) == 3 * server_errors.ATTEMPTS + 1


@pytest.mark.parametrize("server", CASES["refusals"])
def test_each_server_has_words_for_a_prompt_or_a_limit_that_is_too_long(
    server: str,
) -> None:
    words = CASES["refusals"][server]
    for status in (400, 422):
        assert isinstance(make_error("http://x/v1", status, words), PromptTooLongError)


@pytest.mark.parametrize("server", CASES["filters"])
def test_a_filter_is_no_other_refusal(server: str) -> None:
    words = CASES["filters"][server]
    assert isinstance(make_error("http://x/v1", 400, words), FilteredError)
    quoted = json.dumps({"error": {"message": f"unknown field: {words}"}})
    assert not isinstance(make_error("http://x/v1", 400, quoted), FilteredError)


@pytest.mark.parametrize(
    ("args", "config", "expected"),
    [
        ((), {"max_position_embeddings": 4096}, 4096),
        ((), {"text_config": {"max_position_embeddings": 4096}}, 4096),
        ((), {"max_position_embeddings": 4096, "rope_scaling": {"factor": 4.0}}, None),
        (("--max-model-len", "2048"), {"max_position_embeddings": 4096}, 2048),
        (("--max-model-len=auto",), {"max_position_embeddings": 4096}, 4096),
        (("--max-model-len", "9" * 5000), {}, None),
        ((), [], None),
    ],
)
def test_an_engine_s_context_is_in_its_arguments_or_the_model_s_files(
    tmp_path: Path, args: tuple[str, ...], config: object, expected: int | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert context_length(Served("it", str(tmp_path), args)) == expected
