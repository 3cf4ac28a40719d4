"""What a server's error means: whether to retry the request, how often, and when."""

import json
import random
import re
from asyncio import sleep
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from refusal_checks.core.errors import EndpointError

WAIT_INITIAL = 0.5
"""Minimum seconds before the second attempt; each later wait is twice as long."""

WAIT_MAX = 15.0
"""Most seconds between two attempts, unless the server asks for more."""

WAIT_ASKED = 60.0
"""Most seconds to wait for a server's Retry-After."""

ANSWERED = 200
"""The HTTP status of an answer, well-formed or not."""

ATTEMPTS = 4

ATTEMPTS_STALLED = 2
"""The most attempts if a server does not answer in time, as each costs a whole timeout."""

ATTEMPTS_BUSY = 8
"""The most attempts if a server accepts no more requests for now (429)."""

_TOO_LONG = re.compile(
    r"context[ _](length|size|window)|max_new_tokens|max_model_len|"
    r"max_(completion_)?tokens\b.{0,40}(too large|range|less than|at most|> ?\d)|"
    r"\b(prompt|input)\b((?!max_).){0,40}(too (long|large)|longer than|exceed(s|ed)\b)|"
    r"input length should be|`inputs` must have less than",
    re.IGNORECASE,
)
"""How servers say that prompt and answer do not fit, or that they allow fewer tokens of an answer:
vLLM, SGLang, llama.cpp, TGI, Ollama, OpenAI, Anthropic, Gemini, Mistral, Groq, Together, DeepSeek
and Alibaba."""

_FILTERS = ("content_filter", "data_inspection_failed", "1301")
"""Codes or types of an error by which the content filters of Azure and Moonshot, of Alibaba and of
Zhipu withhold an answer."""

_FILTER_WORDS = "Content Exists Risk"
"""With these words DeepSeek's does, whose code says only that the request is invalid."""


class PromptTooLongError(EndpointError):
    """The prompt and the requested answer do not fit the model's context."""


class FilteredError(EndpointError):
    """The server's content filter let no answer through."""


class TransientError(EndpointError):
    """A fault that may pass, such as a 5xx or a malformed answer.

    Attributes:
        after: minimum seconds to wait before the next attempt.
        attempts: most attempts, including the first.
    """

    def __init__(
        self,
        message: str,
        status: int = 0,
        after: float = 0.0,
        attempts: int = ATTEMPTS,
    ) -> None:
        super().__init__(message, status)
        self.after = after
        self.attempts = attempts


def make_error(
    url: str, status: int, text: str, retry_after: str = "", key_variable: str = ""
) -> EndpointError:
    """The exception for an HTTP error: what to do, then what the server said.

    Args:
        retry_after: the header of that name, if any.
        key_variable: the environment variable with the server's key, if there is one.
    """
    said = f"HTTP {status}: {error_words(text)}"
    if status == 400 and is_filtered(text):
        return FilteredError(f"{url}: {said}", status)
    # Most servers answer 400, TGI's validation 422, and gateways with a limit on bytes 413.
    if status in (400, 413, 422) and _TOO_LONG.search(text):
        return PromptTooLongError(
            f"{url}: lower sampling.max_tokens (of a judge judge.max_tokens), or give the server "
            f"a larger context: {said}",
            status,
        )
    message = f"{url}: {_remedy(status, key_variable)}{said}"
    # 429 is RFC 6585's "too many requests"; vendors send it for used-up credit, too.
    if status == 429:
        return TransientError(
            message, status, retry_after_seconds(retry_after), ATTEMPTS_BUSY
        )
    # RFC 9110: 501 means "not implemented", now and later; 408 that the request took too long to
    # arrive, so it may be sent again.
    if status == 408 or (status >= 500 and status != 501):
        return TransientError(message, status, retry_after_seconds(retry_after))
    return EndpointError(message, status)


def _remedy(status: int, key_variable: str) -> str:
    if status in (401, 403) and key_variable:
        return (
            f"set {key_variable} (or OPENAI_API_KEY) to a key that the server accepts: "
        )
    if status in (404, 405, 501):
        return "check the model's name, and the URL, which usually ends in /v1: "
    if status == 429:
        return (
            "wait a minute, then run the same command again; if that does not help, raise the "
            "account's limit or its credit: the server takes no more requests: "
        )
    return "look into the server's log: it failed: " if status >= 500 else ""


def is_filtered(text: str) -> bool:
    """True for the body of an error by which a content filter withheld an answer."""
    error = _error(text)
    if not isinstance(error, dict):
        return False
    words = str(error.get("message", ""))
    names = (error.get("code"), error.get("type"))
    return words.startswith(_FILTER_WORDS) or any(name in _FILTERS for name in names)


def _error(text: str) -> Any:
    """The error in the JSON of a reply, however it is wrapped; None for other texts."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer.get("error", answer) if isinstance(answer, dict) else answer


def retry_after_seconds(retry_after: str) -> float:
    """Seconds that a Retry-After header (RFC 9110: seconds, or a date) asks for; else 0."""
    try:
        if re.fullmatch(r"\d{1,9}(\.\d*)?", retry_after.strip()):
            left = float(retry_after)
        else:
            date = parsedate_to_datetime(retry_after)
            if not date.tzinfo:
                date = date.replace(tzinfo=UTC)
            left = (date - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, left)


_TITLE = re.compile(r"<title>([^<]{1,200})<", re.IGNORECASE)


def error_words(text: str) -> str:
    """The server's own message, cut to fit ours."""
    error = _error(text)
    title = _TITLE.search(text[:2000])
    if error is None and title:  # of a proxy, or of a server that is no API
        return f'a web page, "{" ".join(title[1].split())}"'
    if isinstance(error, dict):
        error = error.get("message")
    message = error if isinstance(error, str) else text
    return message[:400] if message.strip() else "an empty reply"


def refused_field(refusal: EndpointError, fields: Iterable[str]) -> str:
    """The field of a request that a server's refusal names; empty if it names none.

    Of several it is the last: of two settings that exclude each other, one may stay.
    """
    if refusal.status not in (400, 422) or isinstance(
        refusal, FilteredError | PromptTooLongError
    ):
        return ""
    places = {}
    for name in fields:
        named = list(re.finditer(rf"\b{name}\b", str(refusal)))
        if named:
            places[named[-1].start()] = name
    return places[max(places)] if places else ""


async def pause(attempt: int, after: float) -> None:
    """Wait after attempt 1, 2, ...: twice as long each time, and at least ``after`` seconds."""
    growing = min(WAIT_INITIAL * 2.0 ** (attempt - 1), WAIT_MAX)
    # A server may ask for an hour, in which a run had better fail and say so.
    wait = max(growing, min(after, WAIT_ASKED))
    await sleep(wait + random.uniform(0, growing))  # spreads what failed together


MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Exceptions from reading an answer of an unexpected form."""
