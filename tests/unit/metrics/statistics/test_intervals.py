"""Estimates and the weighting of sampled answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from refusal_checks.metrics.statistics.intervals import (
    Estimate,
    pooled,
    refusal_confidence,
    softmax_weights,
    wilson,
)

LOGPROBS = st.floats(-50, 0)
SOME_UNKNOWN = st.lists(st.none() | LOGPROBS, min_size=1, max_size=12)
ANSWERS = st.lists(
    st.tuples(st.sampled_from((1, -1)), st.none() | LOGPROBS), min_size=1, max_size=12
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
    assert pooled([wilson(0.9, 100), wilson(0.6, 50)]) == wilson(0.8, 150)
    assert pooled([wilson(0.9, 100, 0.9)], 0.9) == wilson(0.9, 100, 0.9)


def test_parts_with_clusters_keep_their_wider_intervals() -> None:
    wide = Estimate(0.6, 0.3, 0.8, 200)
    assert pooled([wide]) == wide
    both = pooled([wide, wilson(0.9, 200)])
    assert (both.value, both.n) == (0.75, 400)
    assert both.lower == pytest.approx(0.75 - math.hypot(0.15, (0.9 - wilson(0.9, 200).lower) / 2))
    assert both.upper == pytest.approx(0.75 + math.hypot(0.1, (wilson(0.9, 200).upper - 0.9) / 2))


def test_wilson_narrows_with_more_units_and_widens_with_more_confidence() -> None:
    def width(n: int, confidence: float) -> float:
        estimate = wilson(0.8, n, confidence)
        return estimate.upper - estimate.lower

    assert width(400, 0.95) < width(100, 0.95) < width(100, 0.99)


@given(st.lists(LOGPROBS, min_size=1, max_size=10))
def test_an_unknown_log_probability_weighs_as_the_mean_of_the_others(known: list[float]) -> None:
    average = sum(known) / len(known)
    assert softmax_weights([*known, None]) == pytest.approx(softmax_weights([*known, average]))


def test_weights_are_the_softmax_of_the_scaled_log_probabilities() -> None:
    assert softmax_weights([0.0, -math.log(3)]) == pytest.approx((0.75, 0.25))
    assert softmax_weights([0.0, -math.log(9)], temperature=2) == pytest.approx((0.75, 0.25))


@given(ANSWERS)
def test_refusal_confidence_changes_its_sign_with_the_labels(
    answers: list[tuple[int, float | None]],
) -> None:
    signs, logprobs = zip(*answers, strict=True)
    opposite = refusal_confidence([-sign for sign in signs], logprobs)
    assert opposite == pytest.approx(-refusal_confidence(signs, logprobs))


@pytest.mark.parametrize("seed", range(20))
def test_rounding_takes_no_refusal_confidence_beyond_one(seed: int) -> None:
    logprobs = np.random.default_rng(seed).uniform(-3, 0, 19).tolist()
    assert refusal_confidence([1] * 19, logprobs) <= 1
    assert refusal_confidence([-1] * 19, logprobs) >= -1


def test_refusal_confidence_needs_one_log_probability_an_answer() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        refusal_confidence([1, 1], [None])


@given(st.floats(0, 1), st.integers(1, 10_000), st.floats(0.01, 0.999))
def test_wilson_contains_the_share_and_stays_within_zero_and_one(
    share: float, n: int, confidence: float
) -> None:
    estimate = wilson(share, n, confidence)
    assert 0 <= estimate.lower <= estimate.value == share <= estimate.upper <= 1
    assert estimate.n == n


@given(SOME_UNKNOWN, st.floats(0.1, 10))
def test_weights_are_positive_and_sum_to_one(
    logprobs: list[float | None], temperature: float
) -> None:
    weights = softmax_weights(logprobs, temperature)
    assert len(weights) == len(logprobs)
    assert all(weight >= 0 for weight in weights)
    assert sum(weights) == pytest.approx(1)


@given(SOME_UNKNOWN, st.floats(-100, 100))
def test_a_constant_shift_of_the_log_probabilities_changes_no_weight(
    logprobs: list[float | None], shift: float
) -> None:
    shifted = [None if value is None else value + shift for value in logprobs]
    assert softmax_weights(shifted) == pytest.approx(softmax_weights(logprobs), abs=1e-9)


def test_weights_are_uniform_where_no_log_probability_is_known() -> None:
    assert softmax_weights([None] * 4) == (0.25,) * 4


def test_weights_survive_log_probabilities_beyond_the_range_of_exp() -> None:
    assert softmax_weights([-5000.0, -5000.0, -9000.0]) == pytest.approx((0.5, 0.5, 0))


@given(ANSWERS)
def test_refusal_confidence_lies_between_minus_one_and_one(
    answers: list[tuple[int, float | None]],
) -> None:
    signs, logprobs = zip(*answers, strict=True)
    assert -1 <= refusal_confidence(signs, logprobs) <= 1


@given(SOME_UNKNOWN)
def test_refusal_confidence_is_one_when_all_answers_refuse(logprobs: list[float | None]) -> None:
    assert refusal_confidence([1] * len(logprobs), logprobs) == pytest.approx(1)
    assert refusal_confidence([-1] * len(logprobs), logprobs) == pytest.approx(-1)


def test_refusal_confidence_weighs_likely_answers_more() -> None:
    assert refusal_confidence([1, -1], [0.0, -math.log(3)]) == pytest.approx(0.5)
    assert refusal_confidence([1, -1], [-math.log(3), 0.0]) == pytest.approx(-0.5)
    assert refusal_confidence([1, 1, -1, -1, -1], [None] * 5) == pytest.approx(-0.2)
