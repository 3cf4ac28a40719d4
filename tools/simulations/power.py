"""How often the number of prompts that a gate recommends decides it: see ``measurements.md``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from refusal_checks.metrics.statistics.intervals import bounded_mean, wilson
from refusal_checks.metrics.statistics.sample_size import (
    prompts_for_mean,
    prompts_for_share,
)
from tools.simulations.means import KINDS

SHARES = (
    (0.85, 0.8),
    (0.95, 0.9),
    (0.78, 0.8),
    (0.05, 0.1),
    (0.12, 0.1),
    (0.7, 0.8),
    (0.99, 0.95),
)
DISTANCES = (-0.1, -0.05, 0.05)
FIRST, RUNS = 50, 1000


def of_shares() -> None:
    """The exact probability for shares: a sum over the counts that decide."""
    from scipy.stats import binom

    print(
        "| true share | bound | advised prompts | decide |\n| --- | --- | --- | --- |"
    )
    for share, bound in SHARES:
        n = prompts_for_share(share, bound, 0.95) or 0
        decide = []
        for count in range(n + 1):
            interval = wilson(count / n, n)
            if not interval.lower <= bound <= interval.upper:
                decide.append(count)
        print(
            f"| {share} | {bound} | {n} | {100 * np.sum(binom.pmf(decide, n, share)):.1f}% |"
        )


def of_means() -> None:
    """The share for means: runs have as many prompts as an interval over 50 recommends."""
    print("\n| metric | bound | advised prompts | decide |\n| --- | --- | --- | --- |")
    for name, kind in KINDS.items():
        span = kind.highest - kind.lowest
        for distance in DISTANCES:
            rng = np.random.default_rng([3, len(name)])

            def draw(n: int, rng: np.random.Generator = rng) -> list[float]:
                return list(kind.answers(rng, kind.prompts(rng, n)))  # noqa: B023

            bound = kind.mean + distance * span / 2
            first = bounded_mean(draw(FIRST), kind.lowest, kind.highest)
            moved = kind.mean - first.value
            first = replace(
                first,
                value=kind.mean,
                lower=first.lower + moved,
                upper=first.upper + moved,
            )
            n = prompts_for_mean(first, bound, 0.975, (kind.lowest, kind.highest)) or 0
            if not kind.lowest < bound < kind.highest or n > 5000:
                continue
            decided = 0
            for _ in range(RUNS):
                interval = bounded_mean(draw(n), kind.lowest, kind.highest)
                if not interval.lower <= bound <= interval.upper:
                    decided += 1
            print(
                f"| {name} | {bound:.3f} | {n} | {100 * decided / RUNS:.1f}% |",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    of_shares()
    of_means()
