"""Schedules on engines whose steps take as long however full: ``python -m tools.speed.schedule``.

The model is that of ``instant``, in virtual time: a sequence of n tokens holds its place in the
batch for n steps, and waits for one while all are taken. So a train of 27,000 prompts
takes seconds, and the figures are the same on any machine.
"""

from __future__ import annotations

import argparse
import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple, TypeVar

import numpy as np

from refusal_checks.evaluation.planning import LEAST

BATCH = 512
"""Prompts, or verdicts, between two barriers."""

Done = Callable[[], None]
Part = TypeVar("Part")


@dataclass
class Copy:
    """One copy of a model: what it generates now, and what waits."""

    running: int = 0
    waiting: deque[tuple[int, Done]] = field(default_factory=deque)

    @property
    def load(self) -> int:
        """As vLLM weighs its data-parallel copies."""
        return 4 * len(self.waiting) + self.running


class Engines:
    """Copies of one model, and the time.

    Args:
        places: sequences that one copy generates at one time.
    """

    def __init__(self, copies: int, places: int) -> None:
        self._copies = [Copy() for _ in range(copies)]
        self._places = places
        self._ends: list[tuple[int, int, Copy, Done]] = []
        self._number = count()
        self.now = 0
        self.busy = 0

    def submit(self, tokens: int, done: Done) -> None:
        """Generate this number of tokens on the copy with the least to do."""
        copy = min(self._copies, key=lambda each: each.load)
        copy.waiting.append((tokens, done))
        self._admit(copy)

    def _admit(self, copy: Copy) -> None:
        while copy.waiting and copy.running < self._places:
            tokens, done = copy.waiting.popleft()
            copy.running += 1
            self.busy += tokens
            heapq.heappush(
                self._ends, (self.now + tokens, next(self._number), copy, done)
            )

    def run(self) -> None:
        """Until nothing is left."""
        while self._ends:
            self.now, _, copy, done = heapq.heappop(self._ends)
            copy.running -= 1
            self._admit(copy)
            done()

    @property
    def used(self) -> float:
        """Share of all places that were taken, over all steps."""
        return (
            self.busy / (self.now * self._places * len(self._copies))
            if self.now
            else 0.0
        )


class Work(NamedTuple):
    """What is asked for.

    Attributes:
        answers: tokens of each prompt's K answers.
        verdict: tokens of a verdict.
    """

    answers: Sequence[Sequence[int]]
    verdict: int


@dataclass(frozen=True)
class Setting:
    """One evaluation.

    Attributes:
        spread: standard deviation of the logarithm of answers' lengths.
        most: tokens of any answer.
        benchmarks: of equal size; a barrier stands between them.
        places: see ``Engines``.
    """

    prompts: int = 27_000
    samples: int = 5
    mean: int = 256
    spread: float = 0.9
    most: int = 8192
    verdict: int = 35
    benchmarks: int = 20
    copies: int = 1
    places: int = 256

    @property
    def in_flight(self) -> int:
        """Prompts at one time, as the gate has them; see ``run.concurrency``."""
        return max(LEAST, -(-2 * self.places * self.copies // self.samples))

    def work(self) -> Work:
        """The same lengths for the same setting."""
        normal = np.random.default_rng(0).normal(size=(self.prompts, self.samples))
        median = self.mean / np.exp(self.spread**2 / 2)
        lengths = np.clip(np.rint(median * np.exp(self.spread * normal)), 1, self.most)
        return Work(lengths.astype(int).tolist(), self.verdict)

    def engines(self) -> Engines:
        """New ones."""
        return Engines(self.copies, self.places)


def gate(engines: Engines, work: Work, in_flight: int) -> None:
    """As the gate does it: an answer is judged when it is there, and the next prompt follows."""
    prompts = iter(work.answers)

    def begin() -> None:
        answers = next(prompts, None)
        if answers is None:
            return
        judge = _after(
            len(answers), lambda: _all(engines, [work.verdict] * len(answers), begin)
        )
        for tokens in answers:
            engines.submit(tokens, judge)

    for _ in range(in_flight):
        begin()
    engines.run()


def barriers(engines: Engines, work: Work, benchmarks: int) -> None:
    """Benchmark by benchmark and in batches: all answers, then all verdicts."""
    size = -(-len(work.answers) // benchmarks)
    for start in range(0, len(work.answers), size):
        answers = work.answers[start : start + size]
        for batch in _batches(answers):
            _all(engines, [tokens for each in batch for tokens in each])
            engines.run()
        for verdicts in _batches([work.verdict for each in answers for _ in each]):
            _all(engines, verdicts)
            engines.run()


def _all(engines: Engines, tokens: Sequence[int], then: Done = lambda: None) -> None:
    done = _after(len(tokens), then)
    for each in tokens:
        engines.submit(each, done)


def _after(number: int, then: Done) -> Done:
    """Does something the last time that it is called."""
    left = count(number - 1, -1)

    def called() -> None:
        if next(left) == 0:
            then()

    return called


def _batches(found: Sequence[Part]) -> Iterator[Sequence[Part]]:
    return (found[start : start + BATCH] for start in range(0, len(found), BATCH))


class Steps(NamedTuple):
    """How long one evaluation took in both ways, in steps, and the share of places taken."""

    gate: int
    gate_used: float
    barriers: int
    barriers_used: float

    @classmethod
    def of(cls, setting: Setting) -> Steps:
        """Evaluate."""
        work, ours, theirs = setting.work(), setting.engines(), setting.engines()
        gate(ours, work, setting.in_flight)
        barriers(theirs, work, setting.benchmarks)
        return cls(ours.now, ours.used, theirs.now, theirs.used)


HEAD = (
    "| prompts | copies | gate, steps | full | barriers / gate | full | of one copy's speed |",
    "|---|---|---|---|---|---|---|",
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.schedule", description=__doc__
    )
    usual = Setting()
    for name in ("samples", "mean", "most", "verdict", "benchmarks", "places"):
        parser.add_argument(f"--{name}", type=int, default=getattr(usual, name))
    parser.add_argument("--spread", type=float, default=usual.spread)
    parser.add_argument("--prompts", type=int, nargs="+", default=[27_000, 2_700, 450])
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 8])
    given = vars(parser.parse_args())
    every, copies = given.pop("prompts"), given.pop("copies")
    for line in HEAD:
        print(line)
    for prompts in every:
        one = 0
        for number in copies:
            found = Steps.of(replace(usual, prompts=prompts, copies=number, **given))
            one = one or found.gate
            print(
                f"| {prompts:,} | {number} | {found.gate:,} | {found.gate_used:.0%} | "
                f"{found.barriers / found.gate:.2f} | {found.barriers_used:.0%} | "
                f"{one / found.gate:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
