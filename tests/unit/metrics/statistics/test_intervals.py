"""Estimates of shares."""

import math

import pytest
from scipy.stats import binomtest

from refusal_checks.metrics.statistics.intervals import Estimate, pooled, wilson


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 2, 7, 60, 450])
def test_wilson_equals_scipy(n: int, confidence: float) -> None:
    for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        theirs = binomtest(k, n).proportion_ci(confidence, method="wilson")
        ours = wilson(k / n, n, confidence)
        assert ours.lower == pytest.approx(theirs.low, abs=1e-9)
        assert ours.upper == pytest.approx(theirs.high, abs=1e-9)


def test_parts_of_independent_prompts_have_wilson_s_interval_together() -> None:
    assert pooled([wilson(0.9, 100), wilson(0.6, 50)]) == wilson(0.8, 150)
    assert pooled([wilson(0.9, 100, 0.9)], 0.9) == wilson(0.9, 100, 0.9)


def test_parts_with_clusters_keep_their_wider_intervals() -> None:
    wide = Estimate(0.6, 0.3, 0.8, 200)
    assert pooled([wide]) == wide
    both = pooled([wide, wilson(0.9, 200)])
    assert (both.value, both.n) == (0.75, 400)
    assert both.lower == pytest.approx(
        0.75 - math.hypot(0.15, (0.9 - wilson(0.9, 200).lower) / 2)
    )
    assert both.upper == pytest.approx(
        0.75 + math.hypot(0.1, (wilson(0.9, 200).upper - 0.9) / 2)
    )
