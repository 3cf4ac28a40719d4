"""How many prompts would decide."""

import numpy as np
import pytest
from scipy.stats import binom

from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate, wilson


@pytest.mark.parametrize(
    ("share", "bound"),
    [(0.85, 0.8), (0.95, 0.9), (0.05, 0.1), (0.12, 0.1), (0.99, 0.95)],
)
def test_the_advised_number_decides_four_runs_of_five(
    share: float, bound: float
) -> None:
    n = sample_size.prompts_for_share(share, bound, 0.95)
    assert n is not None
    found = [wilson(count / n, n) for count in range(n + 1)]
    decide = [count for count, e in enumerate(found) if not e.lower <= bound <= e.upper]
    assert np.sum(binom.pmf(decide, n, share)) == pytest.approx(0.8, abs=0.03)


def test_a_figure_on_its_threshold_is_decided_by_no_number() -> None:
    assert sample_size.prompts_for_share(0.8, 0.8, 0.95) is None
    found = Estimate(0.5, 0.4, 0.6, 9)
    assert sample_size.prompts_for_mean(found, 0.5, 0.975, (0, 1)) is None
    at_half = sample_size.prompts_for_mean(found, 0.6, 0.5, (0, 1))
    assert at_half is None, "an interval of 50% has no width to shrink"


def test_an_interval_of_a_mean_shrinks_with_the_root_of_n() -> None:
    """By (1.96 + 0.84)^2 / 1.96^2 more than where it would just touch the bound."""
    wide = Estimate(0.5, 0.3, 0.7, 10_000)
    for threshold in (0.4, 0.6):
        needed = sample_size.prompts_for_mean(wide, threshold, 0.975, (0.5, 0.5))
        assert needed == pytest.approx(81_730, abs=20)
    clear = Estimate(0.5, 0.4, 0.55, 100)
    assert sample_size.prompts_for_mean(clear, 0.7, 0.975, (0, 1)) == 100
