"""How far a judge agrees with itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from refusal_checks.core.records import Record
from refusal_checks.gates.judge_noise import noise
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

Records = Callable[..., list[Record]]
METRIC = METRICS["rejection_rate"]


def test_a_judge_that_never_changes_its_mind(records: Records) -> None:
    found = noise(METRIC, [records("R R C C")] * 3, wilson(0.5, 4), 0.95)
    assert found
    assert (found.repeats, found.answers, found.flipped) == (3, 4, 0)
    assert (found.deviation, found.of_interval) == (0, 0)


def test_flips_and_their_part_of_the_interval(records: Records) -> None:
    times = [records("R R C C -"), records("R C C C C"), records("R R C R R")]
    found = noise(METRIC, times, Estimate(0.5, 0.1, 0.9, 4), 0.95)
    assert found
    assert (found.answers, found.flipped) == (5, 3)
    # Figures of the three times: 2 of 4, 1 of 5, 4 of 5.
    assert found.deviation == pytest.approx(0.3)
    assert found.of_interval == 1.0  # more than the interval allows for


def test_an_interval_without_width_and_too_few_times(records: Records) -> None:
    times = [records("R C"), records("R R")]
    found = noise(METRIC, times, Estimate(0.5, 0.5, 0.5, 2), 0.95)
    assert found
    assert found.of_interval == 0
    assert noise(METRIC, [records("R"), records("-")], wilson(1.0, 1), 0.95) is None
