"""Confidence sequences: what they rule out, how often wrongly, and how soon."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from refusal_checks.metrics.statistics.confidence_sequence import Betting, bounds

RUNS = 2000


def stops(total: int, rate: float, threshold: float) -> tuple[float, float]:
    """Share of runs that decide wrongly, and mean share of prompts saved.

    All runs bet at once: the runs are the possible means of one call of ``Betting``, which is fed
    with their values column by column.
    """
    rng = np.random.default_rng([total, round(1000 * rate), round(1000 * threshold)])
    ones = round(rate * total)
    values = rng.permuted(np.tile(np.arange(total) < ones, (RUNS, 1)), axis=1).astype(
        float
    )
    above = _first(values, threshold, total)
    below = _first(1 - values, 1 - threshold, total)
    stop = np.minimum(np.minimum(above, below), total)
    decided = np.minimum(above, below) <= total
    # On the threshold, every decision is one that the level must cover.
    on_it = abs(ones / total - threshold) < 1e-12
    wrong = decided & (on_it | ((above < below) != (ones / total > threshold)))
    return float(wrong.mean()), 1 - float(stop.mean()) / total


def _first(values: NDArray[np.float64], mean: float, total: int) -> NDArray[np.int64]:
    """When each run rules the mean out as too low; beyond the total where it never does."""
    first = np.full(len(values), total + 1)
    betting = Betting(np.full(len(values), mean), total, 0.025)
    for step in range(total):
        betting.see(values[:, step])
        first[betting.too_low & (first > total)] = step + 1
    return first


@pytest.mark.parametrize(
    ("threshold", "rate", "saves"),
    [
        (0.8, 0.9, 0.4),  # ten points off, two prompts of five are saved
        (0.8, 0.7, 0.4),
        (0.1, 0.0, 0.4),
        (0.8, 0.8, 0),
        (0.8, 0.795, 0),
        (0.1, 0.105, 0),
    ],
)
@pytest.mark.parametrize("total", [200, 450])
def test_wrong_decisions_stay_within_the_stated_level_and_prompts_are_saved(
    total: int, threshold: float, rate: float, saves: float
) -> None:
    wrong, saved = stops(total, rate, threshold)
    assert wrong <= 0.05
    assert saved >= saves


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(0, 40))
def test_bounds_contain_what_the_whole_list_may_still_be(
    values: list[float], more: int
) -> None:
    total = len(values) + more
    lower, upper = bounds(values, values, total, 0.95)
    assert 0 <= lower <= upper <= 1
    # What was seen is certain: no bound is tighter than it in the wrong direction.
    assert upper >= sum(values) / total - 0.01
    assert lower <= (sum(values) + more) / total + 0.01


def test_a_threshold_that_is_on_no_grid_is_told_exactly() -> None:
    values = [1.0] * 60
    lower, _ = bounds(values, values, 100, 0.95, near=[0.60011])
    coarse, _ = bounds(values, values, 100, 0.95)
    assert lower >= coarse


def test_each_side_has_half_of_the_error() -> None:
    lower, _ = bounds([1.0] * 30, [1.0] * 30, 100, 0.95)
    alone = Betting(np.array([lower, lower + 0.02]), 100, 0.025)
    for _ in range(30):
        alone.see(np.ones(1))
    assert alone.too_low.tolist() == [True, False]


def test_an_uncertain_value_widens_the_bounds() -> None:
    sure = bounds([1.0] * 40, [1.0] * 40, 80, 0.95)
    unsure = bounds([1.0] * 39 + [0.0], [1.0] * 40, 80, 0.95)
    assert unsure[0] < sure[0]
    assert unsure[1] == sure[1]
