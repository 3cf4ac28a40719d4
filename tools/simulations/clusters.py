"""How often the interval holds the true rate if prompts nearly repeat each other.

A model refuses 80% of sources: 75% always, 15% never, the others with an even chance. Prompts of
one source nearly repeat each other. The table has the intervals with and without declared clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from refusal_checks.metrics import METRICS
from tools.simulations._records import records_of

PROMPTS, RATE, RUNS = 200, 0.80, 1000
METRIC = METRICS["rejection_rate"]


class Cell(NamedTuple):
    """A kind of benchmark: the size of its clusters, and how many prompts are in any."""

    name: str
    size: int
    clustered: int = PROMPTS


CELLS = (
    Cell("none", 1),
    Cell("20 prompts in pairs", 2, 20),
    Cell("11 alike", 11, 11),
    Cell("all in pairs", 2),
    Cell("all in fives", 5),
    Cell("all in tens", 10),
)


def run(rng: np.random.Generator, cell: Cell) -> tuple[list[bool], list[str]]:
    """Simulate which prompts are refused, and name their clusters."""
    refused: list[bool] = []
    clusters: list[str] = []
    while len(refused) < PROMPTS:
        left = cell.clustered - len(refused)
        size = min(cell.size, left) if left > 0 else 1
        chance = rng.choice([1.0, 0.0, 0.5], p=[0.75, 0.15, 0.1])
        clusters += [f"c{len(refused)}"] * size
        refused += (rng.random(size) < chance).tolist()
    return refused, clusters


def main() -> None:
    """Print how often both intervals hold the true rate, and their mean widths."""
    print("| repetitions | not declared | declared |\n|---|---|---|")
    for row, cell in enumerate(CELLS):
        rng = np.random.default_rng([29, row])
        held, width = np.zeros(2), np.zeros(2)
        for _ in range(RUNS):
            refused, clusters = run(rng, cell)
            for column, names in enumerate(([], clusters)):
                estimate = METRIC.estimate(records_of(refused, names))
                held[column] += estimate.lower <= RATE <= estimate.upper
                width[column] += estimate.width
        apart, together = (
            f"{share / RUNS:.1%}, {total / RUNS:.3f}"
            for share, total in zip(held, width, strict=True)
        )
        print(f"| {cell.name} | {apart} | {together} |", flush=True)


if __name__ == "__main__":
    main()
