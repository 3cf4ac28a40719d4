"""What requests cost: tokens and tries, counted as servers report them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Usage:
    """A cost; costs add up.

    Attributes:
        requests: answered requests.
        retries: tries beyond a request's first.
        prompt: tokens of prompts, those in a prefix cache included.
        cached: those that a prefix cache held; 0 where the server does not say.
        output: generated tokens.
        verdicts: verdicts that were asked for, 0 of a candidate.
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
        """Tokens of prompts that no cache held."""
        return self.prompt - self.cached


def tokens(found: Any) -> tuple[int, int, int]:
    """Prompt, cached and output tokens of a server's answer; 0 for what it does not say."""
    try:
        said = found["usage"]
        details = said.get("prompt_tokens_details") or {}
        prompt, output = int(said["prompt_tokens"]), int(said.get("completion_tokens") or 0)
        cached = int(details.get("cached_tokens") or 0)
    except _MALFORMED:
        return 0, 0, 0
    return max(prompt, 0), min(max(cached, 0), max(prompt, 0)), max(output, 0)


class Meter:
    """Counts one client's usage, in the thread of its event loop."""

    def __init__(self) -> None:
        self.asked = self.tries = self.verdicts = 0
        self._requests = self._prompt = self._cached = self._output = 0

    def add(self, found: Any) -> None:
        """Count a server's answer."""
        prompt, cached, output = tokens(found)
        self._requests += 1
        self._prompt += prompt
        self._cached += cached
        self._output += output

    @property
    def usage(self) -> Usage:
        """All that was counted so far."""
        return Usage(
            self._requests,
            self.tries - self.asked,
            self._prompt,
            self._cached,
            self._output,
            self.verdicts,
        )
