"""Bounds on means: exact where theory knows the answer, and never tighter for worse data."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from refusal_checks.metrics.statistics.bootstrap_bounds import bounds, lower_bound
from refusal_checks.metrics.statistics.intervals import (
    bounded_mean,
    group_units,
    wilson,
)

ROUNDING = 1e-7

SCORES = st.lists(
    st.sampled_from((0.0, 0.2, 0.5, 0.8, 1.0)) | st.floats(0, 1),
    min_size=1,
    max_size=30,
)
TAILS = st.sampled_from((0.005, 0.025, 0.05, 0.2))


@pytest.mark.parametrize("tail", [0.0005, 0.025, 0.4])
@pytest.mark.parametrize("n", [1, 200, 3000])
def test_yes_no_values_have_clopper_and_pearson_s_bound(n: int, tail: float) -> None:
    for k in sorted({0, 1, n // 2, n - 1, n}):
        values = [1.0] * k + [0.0] * (n - k)
        exact = beta.ppf(tail, k, n - k + 1) if k else 0.0
        assert lower_bound(values, 0, 1, tail) == pytest.approx(exact, abs=1e-9)
        _, mirrored = bounds(np.array([1 - value for value in values]), 0, 1, tail)
        assert mirrored == pytest.approx(1 - exact, abs=1e-9)


def test_the_quantile_is_that_of_simulated_weights() -> None:
    rng = np.random.default_rng(1)
    values, weights = rng.beta(4, 1, 30), rng.choice([1.0, 2.0, 8.0], 30)
    draws = rng.exponential(size=(100_000, 31)) * np.append(weights, 8.0)
    means = draws @ np.append(values, 0.0) / draws.sum(axis=1)
    found = lower_bound(values, 0, 1, 0.025, weights)
    assert (means < found).mean() == pytest.approx(0.025, abs=0.002)
    _, mirrored = bounds(1 - values, 0, 1, 0.025, weights)
    assert mirrored == pytest.approx(1 - found)


@settings(max_examples=30)
@given(SCORES, st.floats(0, 1), TAILS)
def test_one_more_prompt_at_the_bad_end_never_helps(
    values: list[float], other: float, tail: float
) -> None:
    def lower(each: list[float]) -> float:
        return bounded_mean(each, 0, 1, 1 - 2 * tail).lower

    assert lower([*values, 0.0]) <= lower([*values, other]) + ROUNDING
    assert lower([*values, 0.0]) <= lower(values) + ROUNDING
    assert lower([*values, 1.0]) >= lower(values) - ROUNDING


@given(SCORES, st.data(), TAILS)
def test_worse_values_raise_neither_bound_whatever_the_clusters_and_weights(
    values: list[float], data: st.DataObject, tail: float
) -> None:
    worse = [data.draw(st.just(value) | st.floats(0, value)) for value in values]
    sizes = st.lists(
        st.sampled_from("abc_"), min_size=len(values), max_size=len(values)
    )
    clusters = [name.strip("_") for name in data.draw(sizes)]
    shares = [data.draw(st.sampled_from((0.1, 1.0, 3.0))) for _ in values]
    sampled = group_units(clusters, shares)
    better, lowered = (
        bounded_mean(v, 0, 1, 1 - 2 * tail, sampled) for v in (values, worse)
    )
    assert lowered.lower <= better.lower + ROUNDING
    assert lowered.upper <= better.upper + ROUNDING


@given(SCORES, TAILS)
def test_the_order_decides_nothing_and_no_interval_has_zero_width(
    values: list[float], tail: float
) -> None:
    found = bounded_mean(values, 0, 1, 1 - 2 * tail)
    assert bounded_mean(sorted(values), 0, 1, 1 - 2 * tail).lower == pytest.approx(
        found.lower, abs=ROUNDING
    )
    assert 0 <= found.lower <= found.value <= found.upper <= 1
    narrowest = wilson(1.0, len(values), 1 - 2 * tail)
    assert found.width > narrowest.width - 1e-9


@given(st.integers(1, 300), st.data(), TAILS)
def test_yes_no_scores_on_any_range_have_wilson_s_interval(
    n: int, data: st.DataObject, tail: float
) -> None:
    k, level = data.draw(st.integers(0, n)), 1 - 2 * tail
    found = bounded_mean([1.0] * k + [-1.0] * (n - k), -1, 1, level)
    theirs = wilson(k / n, n, level)
    assert found.lower == pytest.approx(2 * theirs.lower - 1, abs=1e-9)
    assert found.upper == pytest.approx(2 * theirs.upper - 1, abs=1e-9)


def test_clusters_of_equal_scores_count_once() -> None:
    values = [1.0, 0.0, 1.0, 1.0, 0.5] * 20
    sampled = group_units([f"c{number // 4}" for number in range(400)])
    repeated = np.repeat(values, 4).tolist()
    found = bounded_mean(repeated, 0, 1, units=sampled)
    once = bounded_mean(values, 0, 1)
    assert found.n == 400
    assert astuple(replace(found, n=100)) == pytest.approx(astuple(once))


def test_prompts_without_a_cluster_are_units_of_their_own() -> None:
    assert group_units(["a", "b", ""]) is None
    sampled = group_units(["a", "", "a", ""])
    assert sampled is not None
    assert sampled.weights.tolist() == [2, 1, 1]
    assert sampled.means(np.array([0.0, 0.5, 1.0, 0.25])).tolist() == [0.5, 0.5, 0.25]
