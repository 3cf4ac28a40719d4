"""Histograms, and agreement, against what can be worked out by hand."""

import pytest

from refusal_checks.metrics.statistics.descriptive import (
    distribution,
    rank_agreement,
)


def test_the_histogram_covers_the_whole_range_and_its_ends() -> None:
    found = distribution([0.0, 0.1, 2.5, 5.0], 0, 5, bins=5)
    assert found.counts == (2, 0, 1, 0, 1)
    assert (found.n, found.lowest, found.highest) == (4, 0, 5)


def test_a_value_at_an_end_of_a_bin_belongs_to_the_upper_one_whatever_its_last_digits() -> (
    None
):
    for votes in range(-10, 10):
        for value in (
            votes / 10,
            votes / 10 - 1e-12,
            votes * 0.1,
            (votes + 10) * 0.1 - 1,
        ):
            found = distribution([max(-1.0, value)], -1, 1)
            assert found.counts.index(1) == votes + 10, value


def test_orders_agree_but_for_what_changed_places() -> None:
    found = rank_agreement([1, 2, 3, 4], [1, 3, 2, 4])
    assert found == pytest.approx((5 - 1) / 6)


@pytest.mark.parametrize("second", [[3.0, 3.0, 3.0], [1.0, 2.0]])
def test_no_order_is_no_correlation(second: list[float]) -> None:
    assert rank_agreement([1.0, 2.0, 3.0][: len(second)], second) is None
