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
from refusal_checks.core.prompts import Prompt
from refusal_checks.models.client.transport import Transport

SOURCES = ("smoke_unsafe", "smoke_safe")


def benchmarks(prompts: int) -> dict[str, Sequence[Prompt]]:
    """Four benchmarks of so many prompts each, all different."""
    known = [prompt for name in SOURCES for prompt in load_prompts(discover()[name], None)]
    Random(0).shuffle(known)
    if 4 * prompts > len(known):
        raise ValueError(f"at most {len(known) // 4} prompts a benchmark")
    parts = (known[start : start + prompts] for start in range(0, 4 * prompts, prompts))
    return {f"part_{number}": part for number, part in enumerate(parts, 1)}


@dataclass(frozen=True)
class Lengths:
    """How long answers are at least: log-normal.

    Attributes:
        median: tokens.
        spread: standard deviation of the logarithm; at 0.9 a few answers in a hundred are six times
            the median, at 1.3 ten times.
        most: tokens of any answer.
    """

    median: int = 48
    spread: float = 0.9
    most: int = 1024

    def least(self, request: str) -> int:
        """Tokens of an answer to a request; the same each time."""
        # With a salt: the bundled prompts were themselves picked by their plain hash.
        digest = hashlib.sha256(f"length of {request}".encode()).digest()
        share = int.from_bytes(digest[:4]) / 2**32
        deviations = NormalDist().inv_cdf(0.001 + 0.998 * share)
        return min(self.most - 1, round(self.median * math.exp(self.spread * deviations)))


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
        lengths: of answers; None for a judge's verdicts, which are left alone.
        benchmark_of: benchmark by text; a judge's request holds the text of the one judged.
    """

    inner: Transport
    lengths: Lengths | None
    benchmark_of: Mapping[str, str]
    requests: list[Request] = field(default_factory=list)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``."""
        text = str(body["messages"][-1]["content"])
        if self.lengths:
            body = {**body, "min_tokens": self.lengths.least(text)}
        name = next(name for known, name in self.benchmark_of.items() if known in text)
        self.requests.append(Request(name, self.lengths is None, body))
        return await self.inner.post(path, body)
