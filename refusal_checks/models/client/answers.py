"""Answers as a server of chat completions gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_checks.core.records import State
from refusal_checks.models.client import usage
from refusal_checks.models.client.http_errors import TransientError

_STOPPED = ("eos_token", "stop_sequence")
"""What TGI says in place of ``stop``."""

MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading an answer of an unexpected form raises."""


@dataclass(frozen=True)
class Choice:
    """One answer as the server gave it.

    Attributes:
        text: the answer, without any reasoning.
        tokens: all that were generated, 0 where the server does not say.
        mean_logprob: mean natural log-probability of the answer's own tokens, None without
            log-probabilities.
        reasoning: whether there was reasoning before the answer, and whether it ended.
    """

    text: str
    finish_reason: str
    tokens: int
    mean_logprob: float | None
    reasoning: State = ""


def read_choices(found: Any, n: int, reasoning_end: str = "") -> tuple[Choice, ...]:
    """The answers in what a server says, in the order of their index.

    Args:
        n: how many were asked for.

    Raises:
        TransientError: there are more, or fewer.
        LookupError, TypeError, ValueError, AttributeError, OverflowError: it is malformed.
    """
    listed = sorted(found["choices"], key=lambda choice: int(choice.get("index") or 0))
    if len(listed) != n:
        raise TransientError(f"asked the server for {n} answers, got {len(listed)}")
    total = usage.tokens(found)[2] if n == 1 else 0
    return tuple(_choice(choice, reasoning_end, total) for choice in listed)


def _choice(choice: Mapping[str, Any], reasoning_end: str, total: int) -> Choice:
    """Read a choice; ``total`` is how many tokens it has where the server counts them for it."""
    said = spoken(choice["message"], reasoning_end)
    listed = (choice.get("logprobs") or {}).get("content") or []
    values = answer_logprobs(listed, said)
    mean = sum(values) / len(values) if values else None
    if mean is not None and not math.isfinite(mean):
        raise ValueError(f"the mean log-probability is {mean}")
    given = str(choice.get("finish_reason"))
    reason = "stop" if given in _STOPPED else given
    return Choice(said.text, reason, total or len(listed), mean, said.reasoning)


_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a model said, without its reasoning.

    Attributes:
        text: the answer; empty where the reasoning did not end.
    """

    text: str
    reasoning: State = ""


def spoken(message: Mapping[str, Any], end: str = "") -> Spoken:
    """The answer in one message of a server.

    A server with a reasoning parser says what was reasoning in a field of its own. Without one, the
    reasoning ends at the first ``end`` in the text, which may be any number of tokens; a text that
    begins with ``<think>`` ends it at ``</think>`` even where nobody said so, since it can be no
    answer.

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
    _, found, answer = text.partition(end)
    return Spoken(answer.lstrip(), "closed") if found else Spoken("", "unclosed")


def written(message: Mapping[str, Any]) -> str:
    """The text of a message, which some servers give in parts; a refusal may have its own field.

    Raises:
        LookupError, TypeError, AttributeError: there is something else in its place.
    """
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError(f"the answer is no text: {type(content).__name__}")
    return content


def answer_logprobs(tokens: Sequence[Mapping[str, Any]], said: Spoken) -> list[float]:
    """Log-probabilities of the tokens that belong to the answer.

    Args:
        tokens: all that were generated, as an OpenAI-compatible server lists them.

    Returns:
        One value per token, in order; those of all tokens where there was no reasoning, and none
        where the answer cannot be found among the tokens.
    """
    values = [float(token["logprob"]) for token in tokens]
    if not said.reasoning:
        return values
    pieces = [_bytes(token) for token in tokens]
    answer = said.text.strip().encode(errors="replace")
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
    """A token's bytes; a character may be divided between two tokens."""
    found = token.get("bytes")
    return bytes(found) if found else str(token.get("token", "")).encode(errors="replace")
