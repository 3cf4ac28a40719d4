"""How many prompts or answers would decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate, bounded_mean, wilson
from refusal_checks.metrics.statistics.sample_size import ErrorParts, Need, for_labels


@given(st.floats(0, 1), st.floats(0.05, 0.95), st.floats(0.5, 0.99))
def test_for_a_share_it_is_the_fewest_whose_interval_leaves_the_threshold_out(
    share: float, threshold: float, level: float
) -> None:
    assume(abs(share - threshold) > 0.01)
    n = sample_size.for_share(share, threshold, level)
    assert n is not None

    def spans(n: int) -> bool:
        found = wilson(share, n, level)
        return found.lower + 1e-9 < threshold < found.upper - 1e-9

    assert not spans(n)
    assert n == 1 or spans(max(1, n - 2)) or n <= 2


def test_a_figure_on_its_threshold_is_decided_by_no_number() -> None:
    assert sample_size.for_share(0.8, 0.8, 0.95) is None
    assert sample_size.for_mean(Estimate(0.5, 0.4, 0.6, 100), 0.5) is None
    assert (
        sample_size.samples_for_mean(Estimate(0.5, 0.4, 0.6, 9), 0.5, [[0, 1]] * 9, 0.95, (-1, 1))
        is None
    )


def test_an_interval_of_a_mean_shrinks_with_the_root_of_n() -> None:
    assert sample_size.for_mean(Estimate(0.5, 0.3, 0.7, 100), 0.6) == 401
    assert sample_size.for_mean(Estimate(0.5, 0.4, 0.55, 100), 0.6) == 100


def test_more_answers_help_where_the_doubt_lies_within_prompts() -> None:
    rng = np.random.default_rng(0)
    answers = rng.choice([-1.0, 1.0], (100, 5), p=[0.45, 0.55]).tolist()
    means = [float(np.mean(scores)) for scores in answers]
    estimate = bounded_mean(means, -1, 1)
    needed = sample_size.samples_for_mean(estimate, estimate.value - 0.05, answers, 0.95, (-1, 1))
    assert needed is not None
    more = rng.choice([-1.0, 1.0], (100, needed), p=[0.45, 0.55])
    found = bounded_mean(more.mean(axis=1).tolist(), -1, 1)
    assert found.value - found.lower == pytest.approx(0.05, rel=0.15)


def test_more_answers_are_of_no_use_where_prompts_differ_and_answers_do_not() -> None:
    answers = [[1.0] * 3] * 12 + [[-1.0] * 3] * 10
    estimate = bounded_mean([scores[0] for scores in answers], -1, 1)
    assert sample_size.samples_for_mean(estimate, 0.0, answers, 0.95, (-1, 1)) is None


@pytest.mark.parametrize(
    ("parts", "need"),
    [
        (ErrorParts(0.0, 1.0, 50), Need(417, None, None, 50)),
        (ErrorParts(1.0, 0.0, 50), Need(None, None, 209, 50)),
        (ErrorParts(0.9, 0.1, 50), Need(None, None, 322, 50)),
        (ErrorParts(0.9, 0.1, 50, 300), Need(None, None, None, 50)),
        (ErrorParts(0.5, 0.5, 50), Need(None, None, None, 50)),
        (ErrorParts(0.1, 0.9, 50), Need(643, None, None, 50)),
    ],
)
def test_what_is_scarce_is_named(parts: ErrorParts, need: Need) -> None:
    """The error must halve; a part that stays as it is leaves less room for the other."""
    assert for_labels(Estimate(0.5, 0.4, 0.6, 100), 0.549, parts) == need


def test_one_answer_a_prompt_tells_nothing_of_more() -> None:
    estimate = bounded_mean([1.0, -1.0, 1.0], -1, 1)
    assert (
        sample_size.samples_for_mean(estimate, 0.0, [[1.0], [-1.0], [1.0]], 0.95, (-1, 1)) is None
    )


def test_labels_decide_nothing_on_the_threshold() -> None:
    parts = ErrorParts(0.5, 0.5, 50)
    assert for_labels(Estimate(0.5, 0.4, 0.6, 100), 0.5, parts) == Need(None, labelled=50)
