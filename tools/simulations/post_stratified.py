"""Post-stratified intervals of rates, from people's labels of some prompts of a run.

Runs have 250 prompts, some of them labelled; the judge errs with its sensitivity and specificity.
The table shows how often 95% intervals contain the rate, lie above it (a false pass of a ``min``)
or below it, and their mean width.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from refusal_checks.judges.trust.powered_rates import prediction_powered

PROMPTS, RUNS = 250, 1000
RATES, LABELS = (0.06, 0.5, 0.94), (20, 40, 100)
JUDGES = ((0.95, 0.95), (0.74, 0.98), (0.98, 0.6))


def cell(rate: float, sensitivity: float, specificity: float, labels: int) -> str:
    """Compute one row's figures."""
    rng = np.random.default_rng(
        [6, round(100 * rate), round(100 * sensitivity), labels]
    )
    inside = above = below = 0
    width = 0.0
    for _ in range(RUNS):
        truth = rng.random(PROMPTS) < rate
        if_refusal = rng.random(PROMPTS) < sensitivity
        if_compliance = rng.random(PROMPTS) >= specificity
        human = truth.astype(float).tolist()
        judge = np.where(truth, if_refusal, if_compliance).astype(float).tolist()

        interval = prediction_powered(human[:labels], judge[:labels], judge[labels:])
        if interval.lower > rate:
            above += 1
        elif interval.upper < rate:
            below += 1
        else:
            inside += 1
        width += interval.upper - interval.lower

    hits, too_high, too_low = (f"{100 * n / RUNS:.1f}" for n in (inside, above, below))
    return f"{hits}% ({too_high}, {too_low}), {width / RUNS:.3f}"


def main() -> None:
    """Print the table."""
    print("| labels | rate | sensitivity, specificity | holds (above, below), width |")
    print("| --- | --- | --- | --- |")
    for labels, rate, judge in product(LABELS, RATES, JUDGES):
        figures = cell(rate, *judge, labels)
        print(f"| {labels} | {rate} | {judge[0]}, {judge[1]} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
