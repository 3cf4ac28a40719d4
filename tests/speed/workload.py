"""Four benchmarks whose answers have mixed lengths, and the transport that sees to that."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist
from typing import Any

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.conversation import Prompt
from refusal_checks.transport import Transport

SOURCES = ("smoke_unsafe", "smoke_safe")
MEDIAN_TOKENS = 48
SPREAD = 0.9
"""Of the logarithm of a prompt's least answer length: a few answers are ten times the median."""

MOST_TOKENS = 512


def benchmarks(prompts: int) -> dict[str, Sequence[Prompt]]:
    """Four benchmarks of so many prompts each, all different."""
    known = [prompt for name in SOURCES for prompt in load_prompts(discover()[name], None)]
    Random(0).shuffle(known)
    if 4 * prompts > len(known):
        raise ValueError(f"at most {len(known) // 4} prompts a benchmark")
    parts = (known[start : start + prompts] for start in range(0, 4 * prompts, prompts))
    return {f"part_{number}": part for number, part in enumerate(parts, 1)}


def least_tokens(request: str) -> int:
    """How many tokens an answer to a request has at least: the same each time, log-normal."""
    share = int.from_bytes(hashlib.sha256(request.encode()).digest()[:4]) / 2**32
    wanted = MEDIAN_TOKENS * math.exp(SPREAD * NormalDist().inv_cdf(0.001 + 0.998 * share))
    return min(MOST_TOKENS - 1, round(wanted))


@dataclass(frozen=True)
class Request:
    """One request as it was sent.

    Attributes:
        benchmark: whose it is.
        is_judge: whether it asks for a verdict.
    """

    benchmark: str
    is_judge: bool
    body: Mapping[str, Any]


@dataclass
class Recorder:
    """Sends requests on, with a least length for the candidate's answers, and keeps them.

    Attributes:
        benchmark_of: benchmark by text; a judge's request holds the text of the one judged.
    """

    inner: Transport
    is_judge: bool
    benchmark_of: Mapping[str, str]
    requests: list[Request] = field(default_factory=list)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``."""
        text = str(body["messages"][-1]["content"])
        if not self.is_judge:
            body = {**body, "min_tokens": least_tokens(text)}
        name = next(name for known, name in self.benchmark_of.items() if known in text)
        self.requests.append(Request(name, self.is_judge, body))
        return await self.inner.post(path, body)
