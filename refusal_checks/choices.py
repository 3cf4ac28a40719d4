"""Answers as a server of chat completions gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refusal_checks import usage
from refusal_checks.faults import TransientError
from refusal_checks.reasoning import State, answer_logprobs, spoken

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
