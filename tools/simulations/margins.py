"""How often a true drop passes ``max_drop = 0.05``, by its size: see ``measurements.md``.

Two releases answer the same prompts, and the judge makes no errors. Answers flip both ways: the new
release loses the drop and another 2% of the prompts, and gains 2%.
"""

from __future__ import annotations

import numpy as np

from refusal_checks.metrics.statistics.paired import share_bounds

MARGIN, FLIPS, RUNS = 0.05, 0.02, 10_000
DROPS = (0.0, 0.02, 0.05, 0.08)
SIZES = (100, 200, 450, 1000)


def _passes(drop: float, n: int) -> float:
    """How often the comparison passes, in percent."""
    rng = np.random.default_rng([5, n, round(1000 * drop)])
    kept = 1 - drop - 2 * FLIPS
    counts = rng.multinomial(n, (drop + FLIPS, FLIPS, kept), size=RUNS)
    passed = sum(
        share_bounds(int(lost), int(gained), n, 0.95).lower >= -MARGIN
        for lost, gained, _ in counts
    )
    return 100 * passed / RUNS


def main() -> None:
    """Print how often each drop passes, by the number of prompts."""
    print(f"| true drop | {' | '.join(map(str, SIZES))} |")
    print(f"|{' --- |' * (1 + len(SIZES))}")
    for drop in DROPS:
        cells = " | ".join(f"{_passes(drop, n):.1f}%" for n in SIZES)
        print(f"| {100 * drop:.0f} points | {cells} |", flush=True)


if __name__ == "__main__":
    main()
