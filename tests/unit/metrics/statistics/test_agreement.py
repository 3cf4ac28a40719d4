"""Agreement of scores, against values that can be worked out by hand."""

from __future__ import annotations

import pytest

from refusal_checks.metrics.statistics.descriptive import Agreement, agreement, falling, matched


def test_equal_and_reversed_orders_are_the_ends_of_the_scale() -> None:
    assert agreement([1, 2, 3], [2, 3, 4]) == Agreement(3, 1.0, 1.0, 1.0)
    found = agreement([1, 2, 3, 4], [4, 3, 2, 1])
    assert found.spearman == pytest.approx(-1)
    assert found.kendall == pytest.approx(-1)
    assert found.mean_absolute_difference == 2


def test_a_pair_of_neighbours_that_change_places() -> None:
    # Spearman 1 - 6 * 2 / (4 * 15), Kendall (5 - 1) / 6.
    found = agreement([1, 2, 3, 4], [1, 3, 2, 4])
    assert found.spearman == pytest.approx(0.8)
    assert found.kendall == pytest.approx(2 / 3)


@pytest.mark.parametrize("second", [[3.0, 3.0, 3.0], [1.0, 2.0]])
def test_no_order_is_no_correlation(second: list[float]) -> None:
    found = agreement([1.0, 2.0, 3.0][: len(second)], second)
    assert found.spearman is None
    assert found.kendall is None
    assert found.n == len(second)


def test_falling_scores() -> None:
    assert falling([5, 4, 3, 2, 1.5, 0]) == pytest.approx(1)
    assert falling([0, 1, 2]) == pytest.approx(-1)
    assert falling([3, 3, 3, 3]) == 0


def test_only_what_both_sides_have_is_matched() -> None:
    assert matched({"a": 1, "b": 2}, {"b": 3, "c": 4}) == [("b", 2, 3)]
    scores = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert matched(scores, scores, {"a": "c", "b": "d", "x": "a"}) == [("a", 1.0, 3.0)]
