"""Two runs on the same prompts: flips, bounds, and the error rates of the test against a margin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from refusal_checks.metrics.statistics.intervals import group_units
from refusal_checks.metrics.statistics.paired import (
    mean_bounds,
    prompts_for_margin,
    share_bounds,
    tango,
)

Z95 = 1.6448536269514722


STEPS = st.sampled_from((-1.0, -0.4, 0.0, 0.4, 1.0)) | st.floats(-1, 1)


@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, max_size=40), st.data())
def test_a_candidate_that_is_worse_never_has_a_better_bound(
    pairs: list[tuple[float, float]], data: st.DataObject
) -> None:
    before, after = ([pair[side] for pair in pairs] for side in (0, 1))
    worse = [data.draw(st.just(score) | st.floats(-1, score)) for score in after]
    found, lowered = (mean_bounds(before, each, 2.0, 0.95) for each in (after, worse))
    assert lowered.lower <= found.lower + 1e-7
    assert lowered.upper <= found.upper + 1e-7


def test_yes_no_scores_have_tango_s_bounds() -> None:
    before, after = [1.0] * 100 + [-1.0] * 100, [-1.0] * 12 + [1.0] * 96 + [-1.0] * 92
    found, theirs = (
        mean_bounds(before, after, 2.0, 0.95),
        share_bounds(12, 8, 200, 0.95),
    )
    assert (found.lower, found.upper) == pytest.approx(
        (2 * theirs.lower, 2 * theirs.upper)
    )


def exact_rates(n: int, margin: float, drop: float, gain: float) -> tuple[float, float]:
    """Probability that the test shows less of a drop than the margin, and that it shows more.

    Summed over all outcomes, so no simulation's noise is in it.
    """
    lost, gained = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    falls = gain + drop
    of_lost = binom.pmf(np.arange(n + 1), n, falls)[:, None]
    left = n - np.arange(n + 1)[:, None]
    of_gained = binom.pmf(np.arange(n + 1)[None, :], left, gain / (1 - falls))
    chance = of_lost * of_gained * (lost + gained <= n)
    z = tango(lost, gained, n, -margin)
    return float(chance[z > Z95].sum()), float(chance[z < -Z95].sum())


@pytest.mark.parametrize("gain", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("margin", [0.02, 0.1])
@pytest.mark.parametrize("n", [20, 80, 200])
def test_a_drop_of_just_the_margin_is_passed_or_called_a_breach_no_more_often_than_stated(
    n: int, margin: float, gain: float
) -> None:
    passed, breached = exact_rates(n, margin, drop=margin, gain=gain)
    assert passed <= 0.05
    assert breached <= 0.05


def test_clustered_changes_are_as_few_as_their_clusters() -> None:
    changes = np.random.default_rng(4).choice([-1.0, 0.0, 0.0, 1.0], 60)
    sampled = group_units([f"c{number // 5}" for number in range(300)])
    many = mean_bounds([0.0] * 300, np.repeat(changes, 5).tolist(), 1.0, 0.95, sampled)
    once = mean_bounds([0.0] * 60, changes.tolist(), 1.0, 0.95)
    assert many.lower == pytest.approx(once.lower, abs=0.01)


def test_share_bounds_by_hand() -> None:
    # No flip among n: (n d - 1/2) / sqrt(n d (1 - d)) = z gives the bound d.
    found = share_bounds(0, 0, 80, 0.95)
    d = found.upper
    assert (80 * d - 0.5) / np.sqrt(80 * d * (1 - d)) == pytest.approx(Z95, abs=1e-6)
    assert found.lower == pytest.approx(-d, abs=1e-9)


@pytest.mark.parametrize(("margin", "prompts"), [(0.01, 361), (0.05, 70), (0.1, 34)])
def test_prompts_for_a_margin_are_the_fewest_with_which_no_flip_shows_it(
    margin: float, prompts: int
) -> None:
    assert prompts_for_margin(margin, 0.95) == prompts
    assert share_bounds(0, 0, prompts, 0.95).lower >= -margin
    assert share_bounds(0, 0, prompts - 1, 0.95).lower < -margin
