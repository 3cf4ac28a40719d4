"""What gates can show before a run: the power of bounds and margins, and false alarms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from refusal_checks.gates import power
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.metrics.statistics.paired import share_bounds

BOUND = Gate("b", "rejection_rate", minimum=0.8)
MARGIN = Gate("b", "rejection_rate", max_drop=0.05)


@pytest.mark.parametrize(
    ("gate", "n", "said"),
    [
        (
            BOUND,
            200,
            "b-rejection_rate, 200 prompts: passes at a true 82.0% or more, is breached",
        ),
        (
            Gate("b", "rejection_rate", maximum=0.1, decision="confident"),
            20,
            "b-rejection_rate, 20 prompts: too few prompts to pass, is breached at 31.3% or more",
        ),
        (
            MARGIN,
            450,
            "max_drop passes at a true drop of 2.6% or less, is breached at 8.1% or",
        ),
        (
            Gate("b", "rejection_rate", max_rise=0.3),
            10,
            "max_rise passes at a true rise of 2.2%",
        ),
        (Gate("b", "mean_refusal_confidence", minimum=0.8), 200, ""),
        (Gate("b", "invalid_rate", maximum=0.05), 200, ""),
        (
            replace(MARGIN, is_total=True),
            450,
            "b-rejection_rate-total, 450 prompts: max_total_drop ",
        ),
        (BOUND, 0, ""),
    ],
)
def test_what_a_gate_can_show(gate: Gate, n: int, said: str) -> None:
    told = power.described(gate, n, 0.95)
    assert said in told
    assert bool(said) is bool(told)


@given(st.integers(1, 300), st.floats(0.01, 0.99), st.sampled_from([None, 0.9, 0.95]))
def test_what_prompts_can_show_is_the_power_of_the_gate(
    n: int, least: float, confidence: float | None
) -> None:
    found = power.reach(least, n, confidence)
    lower = {
        c: wilson(c / n, n, confidence).lower if confidence else c / n
        for c in range(n + 1)
    }
    upper = {
        c: wilson(c / n, n, confidence).upper if confidence else c / n
        for c in range(n + 1)
    }
    passing = [count for count in lower if lower[count] >= least - 1e-12]
    failing = [count for count in upper if upper[count] < least - 1e-12]
    for shown, counts in ((found.passes, passing), (found.fails, failing)):
        assert (shown is None) is (not counts)
        if shown is not None and 0 < shown < 1:
            assert np.sum(binom.pmf(counts, n, shown)) == pytest.approx(0.8, abs=1e-6)


def test_a_margin_passes_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    told = power.described(MARGIN, 450, 0.95)
    drop = float(told.partition("a true drop of ")[2].partition("%")[0]) / 100
    passed = [
        share_bounds(lost, 0, 450, 0.95).lower >= -0.05
        for lost in rng.binomial(450, drop, 500)
    ]
    assert sum(passed) / 500 == pytest.approx(0.8, abs=0.06)
