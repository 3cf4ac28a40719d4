"""How often gates pass when answers lack verdicts: see ``docs/explanation/measurements.md``.

Each cell shows how often the gate would pass if such answers were left out, and how often it passes
as it must, however they are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.metrics.statistics.paired import share_bounds

SIZES = (100, 200, 450, 1000)
RUNS = 5_000
LEVEL = 0.95
MARGIN, MINIMUM = 0.05, 0.80
BACK = 0.02
"""Share of prompts that flip against the drop."""


class Invalid(NamedTuple):
    """Answers without a verdict.

    Attributes:
        share: their share of all answers.
        hides: True if all of them would count against the gate if they had a verdict.
    """

    share: float
    hides: bool

    @property
    def title(self) -> str:
        """A row's name."""
        where = "where the candidate complies" if self.hides else "anywhere"
        return f"{self.share:.0%} invalid, {where}" if self.share else "none invalid"


KINDS = (
    Invalid(0, False),
    Invalid(0.02, False),
    Invalid(0.05, False),
    Invalid(0.02, True),
    Invalid(0.05, True),
)


@cache
def largest_drop(lost: int, gained: int, n: int) -> float:
    """The one-sided bound on a drop."""
    return -share_bounds(lost, gained, n, LEVEL).lower


@cache
def lowest_rate(refused: int, n: int) -> float:
    """The lower end of the rate's interval."""
    return wilson(refused / n, n, LEVEL).lower


def margins(
    rng: np.random.Generator, n: int, drop: float, invalid: Invalid
) -> tuple[float, float]:
    """How often ``max_drop`` passes with the invalid pairs left out, and with them counted."""
    moved = (drop + BACK, BACK)
    counts = rng.multinomial(n, [*moved, 0.9 - moved[0], 0.1 - BACK], RUNS)
    unknown = _unknown(rng, counts, invalid, n, moved[0])
    seen = counts - unknown
    valid = [largest_drop(*map(int, row[:2]), int(row.sum())) <= MARGIN for row in seen]
    # Lost at worst: prompts that were refused and now are lost, kept (the third sort) or unknown.
    lost = seen[:, 0] + unknown[:, 0] + unknown[:, 2]
    both = [
        is_valid and largest_drop(int(gone), int(row[1]), n) <= MARGIN
        for is_valid, gone, row in zip(valid, lost, seen, strict=True)
    ]
    return float(np.mean(valid)), float(np.mean(both))


def rates(
    rng: np.random.Generator, n: int, rate: float, invalid: Invalid
) -> tuple[float, float]:
    """How often a confident ``min`` passes without the invalid answers, and with them."""
    counts = rng.multinomial(n, [1 - rate, rate], RUNS)
    unknown = _unknown(rng, counts, invalid, n, 1 - rate)
    seen = counts - unknown
    valid = [lowest_rate(int(row[1]), int(row.sum())) >= MINIMUM for row in seen]
    both = [
        is_valid and lowest_rate(int(row[1]), n) >= MINIMUM
        for is_valid, row in zip(valid, seen, strict=True)
    ]
    return float(np.mean(valid)), float(np.mean(both))


def _unknown(
    rng: np.random.Generator, counts: np.ndarray, invalid: Invalid, n: int, bad: float
) -> np.ndarray:
    """Number of answers of each sort without a verdict; the first sort counts against the gate."""
    chances = np.full(counts.shape[1], 0.0 if invalid.hides else invalid.share)
    if invalid.hides:
        chances[0] = min(1.0, invalid.share / bad)
    return rng.binomial(counts, chances)


def table(
    title: str, lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]
) -> Iterator[str]:
    """A Markdown table; cells have the share of runs that pass without and with invalid answers."""
    yield f"| {title} | " + " | ".join(f"n = {n:,}" for n in SIZES) + " |"
    yield "|---" * (len(SIZES) + 1) + "|"
    for name, cells in lines:
        shown = (f"{before:.1%} / {now:.1%}" for before, now in cells)
        yield f"| {name} | " + " | ".join(shown) + " |"
    yield ""


def main() -> None:
    """Print both tables."""
    rng = np.random.default_rng(20260101)
    drops = []
    for drop in (MARGIN, 0.0):
        for kind in KINDS:
            if drop or not kind.hides:
                cells = [margins(rng, n, drop, kind) for n in SIZES]
                drops.append((f"drop of {drop:.0%}: {kind.title}", cells))
    for line in table("`max_drop = 0.05`", drops):
        print(line)
    shares = []
    for rate in (MINIMUM, 0.95):
        for kind in KINDS:
            if rate == MINIMUM or not kind.hides:
                cells = [rates(rng, n, rate, kind) for n in SIZES]
                shares.append((f"rate of {rate:.0%}: {kind.title}", cells))
    for line in table('`min = 0.80`, `decision = "confident"`', shares):
        print(line)
