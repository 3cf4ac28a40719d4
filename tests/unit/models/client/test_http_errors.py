"""What a server's failure means, and how long it asks to be left alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.errors import EndpointError
from refusal_checks.models.client.http_errors import (
    PromptTooLongError,
    TooFastError,
    TransientError,
    error_for,
    error_words,
    seconds,
)


@given(st.integers(0, 10**6))
def test_retry_after_in_seconds(value: int) -> None:
    assert seconds(str(value)) == value


@given(st.integers(5, 10**6))
def test_retry_after_as_a_date(ahead: int) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    assert ahead - 3 <= seconds(date) <= ahead


def test_a_date_that_has_passed_asks_for_nothing() -> None:
    assert seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert seconds("Wed, 21 Oct 2015 07:28:00") == 0


@given(st.text())
def test_any_other_retry_after_is_read_without_harm(text: str) -> None:
    assert seconds(text) >= 0


@pytest.mark.parametrize("text", ["", "soon", "-5", "nan", "inf", "1e9", "99999999999999"])
def test_what_is_no_retry_after_asks_for_nothing(text: str) -> None:
    assert seconds(text) == 0


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, TooFastError), (500, TransientError), (503, TransientError), (501, EndpointError)],
)
def test_errors_by_status(status: int, kind: type[EndpointError]) -> None:
    fault = error_for("http://x/v1", status, "busy", "7")
    assert type(fault) is kind
    assert fault.status == status
    assert getattr(fault, "after", 7) == 7


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


@given(st.text(), st.sampled_from([400, 404, 429, 500, 503]))
def test_a_server_s_words_never_break_and_stay_short(text: str, status: int) -> None:
    assert len(str(error_for("http://x/v1", status, text))) < 600
    assert len(error_words('{"error": ' + "[" * 100_000)) <= 500
