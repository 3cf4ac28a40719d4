"""Intervals of rates with people's labels: post-stratified, and by PPI++ as before.

A run of 250 prompts, of which some are labelled; the judge errs with its sensitivity and
specificity. How often 95% intervals hold the rate, lie above it (a false pass of a ``min``) and
below it, and how wide they are.
"""

from __future__ import annotations

from itertools import product
from statistics import NormalDist

import numpy as np

from refusal_checks.judges.trust.powered_rates import prediction_powered, tuned
from refusal_checks.metrics.statistics.intervals import wilson

PROMPTS, RUNS = 250, 1000
RATES, LABELS = (0.06, 0.5, 0.94), (20, 40, 100)
JUDGES = ((0.95, 0.95), (0.74, 0.98), (0.98, 0.6))

Scores = np.ndarray[tuple[int], np.dtype[np.float64]]


def ppi(human: Scores, judge: Scores, others: Scores) -> tuple[float, float]:
    """PPI++ with an inverted score test, as versions up to 0.1 had it."""
    estimate = tuned(list(human), list(judge), list(others))
    hit, alarm = (
        (judge[human == side].sum() + 0.25) / ((human == side).sum() + 0.5)
        for side in (1, 0)
    )
    rates = np.linspace(0, 1, 2001)
    called = rates * hit + (1 - rates) * alarm
    mine, its = rates * (1 - rates), called * (1 - called)
    residual = (
        mine - 2 * estimate.weight * mine * (hit - alarm) + estimate.weight**2 * its
    )
    variance = residual / len(human) + estimate.weight**2 * its / len(others)
    value = min(1.0, max(0.0, estimate.value))
    z = NormalDist().inv_cdf(0.975)
    inside = rates[(rates - value) ** 2 <= z**2 * variance]
    low, high = (float(inside[0]), float(inside[-1])) if inside.size else (value, value)
    unanimous = wilson(1.0, len(human), 0.95).lower
    return min(unanimous, low), max(1 - unanimous, high)


def cell(rate: float, sensitivity: float, specificity: float, labels: int) -> str:
    """One row's figures."""
    rng = np.random.default_rng(
        [6, round(100 * rate), round(100 * sensitivity), labels]
    )
    totals = np.zeros((2, 4))
    for _ in range(RUNS):
        truth = rng.random(PROMPTS) < rate
        said = np.where(
            truth, rng.random(PROMPTS) < sensitivity, rng.random(PROMPTS) >= specificity
        )
        human, judge = truth.astype(float), said.astype(float)
        parts = human[:labels], judge[:labels], judge[labels:]
        found = prediction_powered(*(part.tolist() for part in parts))
        for row, (low, high) in enumerate(((found.lower, found.upper), ppi(*parts))):
            totals[row] += low <= rate <= high, low > rate, high < rate, high - low
    shown = (
        (*(f"{100 * n / RUNS:.1f}" for n in row[:3]), f"{row[3] / RUNS:.3f}")
        for row in totals
    )
    return " | ".join(
        f"{held}% ({above}, {below}), {width}" for held, above, below, width in shown
    )


def main() -> None:
    """Print the table."""
    print("| labels | rate | sensitivity, specificity | post-stratified | PPI++ |")
    print("| --- | --- | --- | --- | --- |")
    for labels, rate, judge in product(LABELS, RATES, JUDGES):
        print(
            f"| {labels} | {rate} | {judge[0]}, {judge[1]} | {cell(rate, *judge, labels)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
