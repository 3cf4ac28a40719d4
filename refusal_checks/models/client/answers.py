"""Reads the answers of a chat-completions server, and separates them from their reasoning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_checks.core.finish_reasons import ABORTED
from refusal_checks.core.records import State
from refusal_checks.core.text import storable
from refusal_checks.models.client import usage
from refusal_checks.models.client.http_errors import PromptTooLongError, TransientError
from refusal_checks.models.context import LEAST

_STOPPED = ("eos_token", "stop_sequence")
"""TGI's words for ``stop``."""

_LONGEST_REASON = 64
"""Characters of a finish reason; the longest known has 15."""

_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class Choice:
    """One answer of a server.

    Attributes:
        text: the answer, without any reasoning.
        tokens: number generated, reasoning included; 0 if unknown.
        mean_logprob: mean natural log-probability of the tokens of ``text``; None if unknown.
        reasoning: whether there was reasoning before the answer, and whether it ended.
        room: see ``Completion``.
    """

    text: str
    finish_reason: str
    tokens: int
    mean_logprob: float | None
    reasoning: State = ""
    room: int = 0

    def fills(self, prompt: int, limit: int, asked: int, context: int | None) -> bool:
        """True if the context ended the answer before it had as many tokens as were asked for.

        Args:
            prompt: tokens of the prompt, as the server counts them.
            limit: tokens that the request allowed, at most ``asked``.
            context: most tokens of prompt and answer together, if known.
        """
        if self.finish_reason != "length" or not 0 < self.tokens < asked:
            return False
        return self.tokens >= limit or bool(context and prompt + self.tokens >= context)


def require_room(choices: Sequence[Choice], asked: int, url: str) -> None:
    """Refuse answers to which the context left so few tokens that they are none.

    Raises:
        PromptTooLongError: there is one; some servers take a prompt that nearly fills the context.
    """
    left = min((choice.room for choice in choices if choice.room), default=asked)
    if left < min(asked, LEAST):
        raise PromptTooLongError(f"{url}: the prompt leaves {left} tokens of the context")


def read_choices(response: Any, n: int, reasoning_end: str = "") -> tuple[Choice, ...]:
    """Read the answers from a server's response, in the order of their index.

    Args:
        n: number of answers asked for.

    Raises:
        TransientError: there are more or fewer.
        LookupError, TypeError, ValueError, AttributeError, OverflowError: it is malformed.
    """
    listed = sorted(response["choices"], key=lambda choice: int(choice.get("index") or 0))
    if len(listed) != n:
        raise TransientError(f"asked the server for {n} answers, got {len(listed)}")
    total = usage.tokens(response)[2] if n == 1 else 0
    return tuple(_choice(choice, reasoning_end, total) for choice in listed)


def require_finished(response: Any, finished: frozenset[str] | None = None) -> None:
    """Refuse a response that the server broke off, for example because it was told to end.

    Args:
        finished: the only words by which this server says that an answer is whole or was cut by a
            limit; None where they are not known, so that only ``ABORTED`` counts.

    Raises:
        TransientError: names the finish reason.
        LookupError, TypeError, AttributeError: the response is malformed.
    """
    for choice in response["choices"]:
        reason = _reason(choice.get("finish_reason"))
        if reason in ABORTED or (finished and reason not in finished):
            raise TransientError(f"the server broke an answer off: finish reason {reason!r}")


def _choice(choice: Mapping[str, Any], reasoning_end: str, total: int) -> Choice:
    """Read a choice; ``total`` is its number of tokens by the server's count, 0 without one."""
    message = spoken(choice["message"], reasoning_end)
    listed = (choice.get("logprobs") or {}).get("content") or []
    values = answer_logprobs(listed, message)
    mean = sum(values) / len(values) if values else None
    if mean is not None and not math.isfinite(mean):
        raise ValueError(f"the mean log-probability is {mean}")
    mean = None if mean is None else min(0.0, mean)
    reason = _reason(choice.get("finish_reason"))
    return Choice(message.text, reason, total or len(listed), mean, message.reasoning)


def _reason(given: Any) -> str:
    """Why an answer ended; short enough to be shown."""
    if given == "stop":
        return "stop"  # one text for nearly all answers
    text = given if isinstance(given, str) or given is None else type(given).__name__
    return "stop" if text in _STOPPED else storable(str(text)[:_LONGEST_REASON])


@dataclass(frozen=True, slots=True)
class Spoken:
    """A model's message without its reasoning.

    Attributes:
        text: the answer; empty if the reasoning did not end.
    """

    text: str
    reasoning: State = ""


def spoken(message: Mapping[str, Any], end: str = "") -> Spoken:
    """Separate the answer in a server's message from the reasoning.

    A server with a reasoning parser has a field of its own for the reasoning. Without one, the
    reasoning ends at the first ``end`` in the text, which may be any number of tokens; in a text
    that begins with ``<think>`` it ends at ``</think>`` by default.

    Args:
        end: the text that ends the reasoning; empty for models that do not reason in their text.

    Raises:
        LookupError, TypeError, AttributeError: the message is malformed.
    """
    text = written(message)
    if message.get("reasoning") or message.get("reasoning_content"):
        return Spoken(text.lstrip(), "closed" if text.strip() else "unclosed")
    if not end and text.lstrip().startswith(_OPEN):
        end = _CLOSE
    if not end:
        return Spoken(text)
    _, ended, answer = text.partition(end)
    return Spoken(answer.lstrip(), "closed") if ended else Spoken("", "unclosed")


def written(message: Mapping[str, Any]) -> str:
    """The text of a message, which some servers give in parts or, for refusals, in another field.

    Raises:
        LookupError, TypeError, AttributeError: the message is malformed.
    """
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError(f"the answer is not text: {type(content).__name__}")
    return content


def answer_logprobs(tokens: Sequence[Mapping[str, Any]], message: Spoken) -> list[float]:
    """Log-probabilities of the tokens that belong to the answer.

    Args:
        tokens: all generated tokens, as an OpenAI-compatible server lists them.

    Returns:
        One value per token, in order: of all tokens if there was no reasoning, of none if the
        answer cannot be found among the tokens.
    """
    values = [float(token["logprob"]) for token in tokens]
    if not message.reasoning:
        return values
    pieces = [_bytes(token) for token in tokens]
    answer = message.text.strip().encode(errors="replace")
    start = b"".join(pieces).rfind(answer) if answer else -1
    if start < 0:
        return []
    ends = 0
    for index, piece in enumerate(pieces):
        ends += len(piece)
        if ends > start:
            return values[index:]
    return []


def _bytes(token: Mapping[str, Any]) -> bytes:
    """A token's bytes; a character may span two tokens."""
    known = token.get("bytes")
    return (
        bytes(known)
        if isinstance(known, list) and known
        else str(token.get("token", "")).encode(errors="replace")
    )
