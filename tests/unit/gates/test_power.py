"""What gates can show before a run: the power of bounds and margins, and false alarms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from syrupy.assertion import SnapshotAssertion

from refusal_checks.gates import power
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.metrics.statistics.paired import share_bounds

BOUND = Gate("b", "rejection_rate", minimum=0.8)
MARGIN = Gate("b", "rejection_rate", max_drop=0.05)


def test_what_a_gate_can_show(snapshot: SnapshotAssertion) -> None:
    ceiling = Gate("b", "rejection_rate", maximum=0.1, decision="confident")
    told = [
        power.described(BOUND, 200, 0.95),
        power.described(ceiling, 20, 0.95),
        power.described(MARGIN, 450, 0.95),
        power.described(Gate("b", "rejection_rate", max_rise=0.3), 10, 0.95),
    ]
    assert "\n".join(told) == snapshot
    for metric in ("mean_refusal_confidence", "invalid_rate"):
        assert not power.described(replace(BOUND, metric=metric), 200, 0.95)
    assert not power.described(BOUND, 0, 0.95)


@given(st.integers(1, 300), st.floats(0.01, 0.99), st.sampled_from([None, 0.9, 0.95]))
def test_what_prompts_can_show_is_the_power_of_the_gate(
    n: int, least: float, confidence: float | None
) -> None:
    found = power.reach(least, n, confidence)
    shares = {
        count: Estimate(count / n, count / n, count / n, n) for count in range(n + 1)
    }
    if confidence:
        shares = {count: wilson(count / n, n, confidence) for count in shares}
    passing = [count for count, e in shares.items() if e.lower >= least - 1e-12]
    failing = [count for count, e in shares.items() if e.upper < least - 1e-12]
    for shown, counts in ((found.passes, passing), (found.fails, failing)):
        assert (shown is None) is (not counts)
        if shown is not None and 0 < shown < 1:
            assert np.sum(binom.pmf(counts, n, shown)) == pytest.approx(0.8, abs=1e-6)


def test_a_margin_passes_as_often_as_it_says() -> None:
    told = power.described(MARGIN, 450, 0.95)
    drop = float(told.partition("a drop of ")[2].partition("%")[0]) / 100
    passing = [
        lost for lost in range(451) if share_bounds(lost, 0, 450, 0.95).lower >= -0.05
    ]
    assert np.sum(binom.pmf(passing, 450, drop)) == pytest.approx(0.8, abs=0.02)
