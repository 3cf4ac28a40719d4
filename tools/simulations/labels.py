"""How often the interval of a rate times the share that people confirm contains the true rate.

A model refuses a share of the prompts, the judge finds every refusal and takes some compliances for
refusals, and people label one refusal of each of 20 prompts.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.trust.labels import Confirmation

LABELS, RUNS, LEVEL = 20, 4000, 0.95
RATES, SPECIFICITIES, SIZES = (0.5, 0.76, 0.94), (1.0, 0.95, 0.7), (80, 200, 1000)


def coverage(
    rate: float, specificity: float, n: int, runs: int = RUNS
) -> tuple[float, float, float]:
    """How often 95% intervals hold the rate, how often they lie above it, and their mean width."""
    rng = np.random.default_rng([8, round(100 * rate), round(100 * specificity), n])
    held = above = 0
    width = 0.0
    for _ in range(runs):
        confirmed = int(rng.binomial(n, rate))
        judged = confirmed + int(rng.binomial(n - confirmed, 1 - specificity))
        drawn = min(LABELS, judged)
        found = Confirmation(
            int(rng.hypergeometric(confirmed, judged - confirmed, drawn)), drawn
        )
        figure = wilson(judged / n, n, LEVEL)
        estimate = found.rate(METRICS["rejection_rate"], figure, LEVEL)
        assert estimate
        held += estimate.lower <= rate <= estimate.upper
        above += estimate.lower > rate
        width += estimate.width / runs
    return held / runs, above / runs, width


def main() -> None:
    print(f"\nA judge's rate and {LABELS} labels, {RUNS} runs a row, nominal 95%\n")
    print("| true rate | specificity | prompts | holds the rate | above it | width |")
    print("|---|---|---|---|---|---|")
    for rate, specificity, n in product(RATES, SPECIFICITIES, SIZES):
        held, above, width = coverage(rate, specificity, n)
        cells = f"{held:.1%} | {above:.1%} | {width:.3f}"
        print(f"| {rate:.0%} | {specificity:.2f} | {n} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
