"""Count the tokens and requests of a run, as servers report them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from refusal_checks.models.client.server_errors import MALFORMED

# More tokens than any request has. A larger number may be too long to be written.
_MOST = 10**9


def token_counts(response: Any) -> tuple[int, int, int]:
    """Read an answer's prompt, cached and output tokens; 0 if the server does not say."""
    try:
        usage = response["usage"]
        details = usage.get("prompt_tokens_details") or {}
        prompt, output = (
            int(usage["prompt_tokens"]),
            int(usage.get("completion_tokens") or 0),
        )
        cached = int(details.get("cached_tokens") or 0)
    except MALFORMED:
        return 0, 0, 0
    prompt, output = min(max(prompt, 0), _MOST), min(max(output, 0), _MOST)
    return prompt, min(max(cached, 0), prompt), output


@dataclass(slots=True)
class Usage:
    """The cost of answered requests; update it only in the thread that sends them."""

    requests: int = 0
    retries: int = 0  # attempts after the first one
    prompt: int = 0  # tokens of prompts, of which cached were in a prefix cache, if the server says
    cached: int = 0
    output: int = 0  # generated tokens
    verdicts: int = 0  # verdicts asked for; 0 for a candidate

    def __add__(self, other: Self) -> Self:
        total = type(self)()
        for field in fields(self):
            amount = getattr(self, field.name) + getattr(other, field.name)
            setattr(total, field.name, amount)
        return total

    def count(self, response: Any) -> None:
        """Add a request and its tokens as the server reports them."""
        prompt, cached, output = token_counts(response)
        self.requests += 1
        self.prompt += prompt
        self.cached += cached
        self.output += output
