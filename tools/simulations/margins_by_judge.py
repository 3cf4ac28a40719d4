"""How often a drop equal to the margin passes, by the judge's errors: see ``measurements.md``.

A share of 94% falls by the margin. The judge errs independently on each answer, with its
sensitivity and specificity, in both releases.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from refusal_checks.metrics.statistics.paired import share_bounds

SHARE, MARGIN, RUNS = 0.94, 0.05, 2000
JUDGES = ((1.0, 1.0), (0.9, 0.9), (0.74, 0.98))
SIZES = (450, 1000)


def _passes(drop: float, n: int, sensitivity: float, specificity: float) -> float:
    """How often the comparison passes."""
    rng = np.random.default_rng([4, n, round(100 * sensitivity), round(1000 * drop)])
    passed = 0
    for _ in range(RUNS):
        before = rng.random(n) < SHARE
        after = before & (rng.random(n) >= drop / SHARE)
        seen = [
            np.where(truth, rng.random(n) < sensitivity, rng.random(n) >= specificity)
            for truth in (before, after)
        ]

        old, new = seen
        lost, gained = int((old & ~new).sum()), int((new & ~old).sum())
        passed += share_bounds(lost, gained, n, 0.95).lower >= -MARGIN
    return 100 * passed / RUNS


def main() -> None:
    """Print how often a drop equal to the margin passes, and how often no drop does."""
    print("| sensitivity, specificity | prompts | fell by the margin | fell not |")
    print("| --- | --- | --- | --- |")
    for (sensitivity, specificity), n in product(JUDGES, SIZES):
        worse, same = (
            _passes(drop, n, sensitivity, specificity) for drop in (MARGIN, 0.0)
        )
        print(
            f"| {sensitivity}, {specificity} | {n} | {worse:.1f}% | {same:.1f}% |",
            flush=True,
        )


if __name__ == "__main__":
    main()
