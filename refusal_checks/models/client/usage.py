"""Counts what requests cost: attempts, and tokens as servers report them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading an answer of an unexpected form raises."""

_MOST = 10**9
"""More tokens than any request has; a larger number may be too long to be written."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of some requests; costs can be added.

    Attributes:
        requests: requests that were answered.
        retries: attempts after the first one.
        prompt: tokens of prompts, including those in a prefix cache.
        cached: tokens of prompts in a prefix cache; 0 if the server does not say.
        output: generated tokens.
        verdicts: verdicts asked for; 0 for a candidate.
    """

    requests: int = 0
    retries: int = 0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    verdicts: int = 0

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def computed(self) -> int:
        """Tokens of prompts that were not in a cache."""
        return self.prompt - self.cached


def tokens(response: Any) -> tuple[int, int, int]:
    """Prompt, cached and output tokens of a server's answer; 0 where it does not say."""
    try:
        usage = response["usage"]
        details = usage.get("prompt_tokens_details") or {}
        prompt, output = int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0)
        cached = int(details.get("cached_tokens") or 0)
    except MALFORMED:
        return 0, 0, 0
    prompt, output = min(max(prompt, 0), _MOST), min(max(output, 0), _MOST)
    return prompt, min(max(cached, 0), prompt), output


class Meter:
    """Counts one client's usage; use it in the thread of the client's event loop."""

    def __init__(self) -> None:
        self.asked = self.tries = self.verdicts = 0
        self._requests = self._prompt = self._cached = self._output = 0

    def add(self, response: Any) -> None:
        """Count a server's answer."""
        prompt, cached, output = tokens(response)
        self._requests += 1
        self._prompt += prompt
        self._cached += cached
        self._output += output

    @property
    def usage(self) -> Usage:
        """The usage so far."""
        retries = self.tries - self.asked
        spent = self._prompt, self._cached, self._output
        return Usage(self._requests, retries, *spent, verdicts=self.verdicts)
