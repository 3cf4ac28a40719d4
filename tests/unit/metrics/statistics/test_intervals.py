"""Estimates of shares."""

import math

import pytest
from scipy.stats import binomtest

from refusal_checks.metrics.statistics.intervals import (
    Estimate,
    is_wilson,
    pool_shares,
    wilson,
)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 2, 7, 60, 450])
def test_wilson_equals_scipy(n: int, confidence: float) -> None:
    for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        theirs = binomtest(k, n).proportion_ci(confidence, method="wilson")
        ours = wilson(k / n, n, confidence)
        assert ours.lower == pytest.approx(theirs.low, abs=1e-9)
        assert ours.upper == pytest.approx(theirs.high, abs=1e-9)


def test_parts_of_independent_prompts_have_wilson_s_interval_together() -> None:
    assert pool_shares([wilson(0.9, 100), wilson(0.6, 50)]) == wilson(0.8, 150)
    assert pool_shares([wilson(0.9, 100, 0.9)], 0.9) == wilson(0.9, 100, 0.9)


def test_parts_with_clusters_keep_their_wider_intervals() -> None:
    wide = Estimate(0.6, 0.3, 0.8, 200)
    assert pool_shares([wide]) == wide
    both = pool_shares([wide, wilson(0.9, 200)])
    assert (both.value, both.n) == (0.75, 400)
    assert both.lower == pytest.approx(
        0.75 - math.hypot(0.15, (0.9 - wilson(0.9, 200).lower) / 2)
    )
    assert both.upper == pytest.approx(
        0.75 + math.hypot(0.1, (wilson(0.9, 200).upper - 0.9) / 2)
    )


def test_an_interval_is_wilson_s_only_if_both_its_ends_are() -> None:
    exact = wilson(0.3, 50, 0.95)
    assert is_wilson(exact, 0.95)
    wider = Estimate(0.3, exact.lower, exact.upper + 0.01, 50)
    assert not is_wilson(wider, 0.95)
    assert not is_wilson(Estimate(0.3, exact.lower - 0.01, exact.upper, 50), 0.95)
