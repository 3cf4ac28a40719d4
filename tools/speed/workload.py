"""What is asked: prompts, how many answers to each, how long these are; and what records it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Any

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.core.prompts import Prompt
from refusal_checks.evaluation.planning import Plan
from refusal_checks.models.client.client import CHAT
from refusal_checks.models.client.transport import Transport

BUNDLED = ("smoke_unsafe", "smoke_safe")
PUBLIC = ("xstest_unsafe", "xstest_safe")
PARTS = 4
"""Benchmarks of the mixed work."""


@dataclass(frozen=True)
class Lengths:
    """How long answers are: log-normal.

    Attributes:
        median: tokens.
        spread: standard deviation of the logarithm; at 0.9 a few answers in a hundred are six times
            the median, at 1.3 ten times.
        most: tokens of any answer.
    """

    median: int = 48
    spread: float = 0.9
    most: int = 1024

    def tokens(self, request: str) -> int:
        """Tokens of each answer to a request; the same each time."""
        # With a salt: the bundled prompts were themselves picked by their plain hash.
        digest = hashlib.sha256(f"length of {request}".encode()).digest()
        share = int.from_bytes(digest[:4]) / 2**32
        deviations = NormalDist().inv_cdf(0.001 + 0.998 * share)
        return max(
            1,
            min(self.most - 1, round(self.median * math.exp(self.spread * deviations))),
        )


@dataclass(frozen=True)
class Workload:
    """The same work for every way that is measured.

    Attributes:
        samples: answers to each prompt, K.
        most: tokens of an answer.
        lengths: of answers; None for those at which the model ends by itself.
    """

    name: str
    plan: Plan
    samples: int
    most: int
    lengths: Lengths | None = None

    @property
    def prompts(self) -> int:
        """Their number, over all benchmarks."""
        return sum(map(len, self.plan.values()))

    @property
    def line(self) -> str:
        """For people."""
        how = "as they come"
        if self.lengths:
            how = f"log-normal, median {self.lengths.median}, spread {self.lengths.spread:g}"
        return (
            f"{self.name}: {self.prompts} prompts of {len(self.plan)} benchmark"
            f"{'s' * (len(self.plan) > 1)}, K = {self.samples}, at most {self.most} tokens, "
            f"lengths {how}"
        )


def even(prompts: int, samples: int, most: int, mirror: Path | None) -> Workload:
    """One benchmark, whose answers end as they do: of XSTest where it is, else bundled."""
    chosen = _shuffled(PUBLIC if mirror else BUNDLED, mirror)[:prompts]
    if len(chosen) < prompts:
        raise ValueError(f"--prompts {prompts}: at most {len(chosen)}")
    return Workload("even", {"xstest" if mirror else "smoke": chosen}, samples, most)


def mixed(
    prompts: int, samples: int, lengths: Lengths, name: str = "mixed"
) -> Workload:
    """Benchmarks of so many bundled prompts each, whose answers have mixed lengths."""
    known = _shuffled(BUNDLED, None)
    if PARTS * prompts > len(known):
        raise ValueError(
            f"{prompts} prompts a benchmark: at most {len(known) // PARTS}"
        )
    starts = range(0, PARTS * prompts, prompts)
    parts = (known[start : start + prompts] for start in starts)
    plan = {f"part_{number}": part for number, part in enumerate(parts, 1)}
    return Workload(name, plan, samples, lengths.most, lengths)


def _shuffled(names: Sequence[str], mirror: Path | None) -> list[Prompt]:
    known = [
        prompt for name in names for prompt in load_prompts(discover()[name], mirror)
    ]
    Random(0).shuffle(known)
    return known


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

    @property
    def text(self) -> str:
        """The last turn."""
        return str(self.body["messages"][-1]["content"])


@dataclass
class Recorder:
    """Sends requests on, gives the candidate's answers their lengths, and keeps what was sent.

    Attributes:
        workload: whose requests they are; a judge's request holds the text of the prompt.
    """

    inner: Transport
    workload: Workload
    is_judge: bool
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = self.workload.plan.items()
        self._benchmarks = {
            p.request.strip(): name for name, found in plan for p in found
        }

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``."""
        if path != CHAT:
            return await self.inner.post(path, body)
        text = str(body["messages"][-1]["content"])
        lengths = None if self.is_judge else self.workload.lengths
        if lengths:
            count = lengths.tokens(text)
            body = {**body, "min_tokens": count, "max_tokens": count}
        self.requests.append(Request(self._benchmark(text), self.is_judge, body))
        answer = await self.inner.post(path, body)
        if (
            lengths
        ):  # an answer that fills fewer tokens than the gate asks for has been cut off
            for choice in answer["choices"]:
                choice["finish_reason"] = "stop"
        return answer

    def _benchmark(self, text: str) -> str:
        known = self._benchmarks.get(text.strip())
        return known or next(
            name for prompt, name in self._benchmarks.items() if prompt in text
        )
