"""Rates from a judge's verdicts and labels of a sample: the estimate and its interval."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.errors import EvaluationError
from refusal_checks.judges.trust.powered_rates import prediction_powered
from tools.simulations.judge_intervals import (
    GRID,
    read_labels,
    simulate,
)


@pytest.mark.parametrize(
    ("model", "package", "span"),
    [
        ("gpt4", 0.50262, (0.41956, 0.58568)),
        ("mistralinstruct", 0.14409, (0.04624, 0.24194)),
    ],
)
def test_the_estimate_is_that_of_ppi_python(
    mirror: Path, model: str, package: float, span: tuple[float, float]
) -> None:
    """ppi_mean_pointestimate and ppi_mean_ci of ppi-python 0.2.3, every ninth answer labelled."""
    human, judge = (list(map(float, side)) for side in read_labels(mirror, model))
    rest = [score for number, score in enumerate(judge) if number % 9]
    found = prediction_powered(human[::9], judge[::9], rest)
    assert found.value == pytest.approx(package, abs=1e-3)
    assert (found.lower, found.upper) == pytest.approx(span, abs=0.03)
    assert found.n == len(human)


def test_means_of_other_scores() -> None:
    human = [0.2, 0.9, -1.0, 0.4, 1.0, -0.6] * 5
    judge = [score * 0.9 + 0.05 for score in human]
    found = prediction_powered(human, judge, [-0.5, 0.7, 0.1] * 40)
    alone = prediction_powered(human, [0.0] * 30, [0.0] * 120)
    assert found.upper - found.lower < alone.upper - alone.lower
    assert found.lower < found.value < found.upper


def test_all_labelled_needs_no_judge() -> None:
    found = prediction_powered([1.0] * 6 + [0.0] * 6, [0.0] * 12, [])
    assert found.lower < found.value == 0.5 < found.upper


def test_few_labels_give_no_interval() -> None:
    with pytest.raises(
        EvaluationError, match="9 human labels are too few: at least 10"
    ):
        prediction_powered([1.0] * 9, [1.0] * 9, [1.0] * 50)


@pytest.mark.parametrize(
    ("refused", "between", "width"),
    [(0.0, 0.0, 0.35), (0.0, 0.1, 0.45), (1.0, 0.1, 0.45)],
)
def test_an_estimate_beyond_the_range_is_no_certainty(
    refused: float, between: float, width: float
) -> None:
    """The judge calls half of the labelled prompts wrongly, as it does none of the others."""
    other = 1.0 - refused
    human = [other, *[refused] * 9]
    judge = [*[other] * 5, *[abs(refused - between)] * 5]
    found = prediction_powered(human, judge, [refused] * 200)
    assert found.value == pytest.approx(refused, abs=0.01)
    assert found.upper - found.lower > width


def test_no_judge_is_so_good_that_a_refusal_less_makes_a_rate_surer() -> None:
    """Ten labels of ten say nothing of the judge's mistakes; nine and one praise it."""
    ten, nine = [1.0] * 10, [1.0] * 9 + [0.0]
    rest = [1.0] * 380 + [0.0] * 20
    of_ten = prediction_powered(ten, ten, rest)
    of_nine = prediction_powered(nine, nine, rest)
    assert of_nine.value < of_ten.value
    assert of_nine.lower <= of_ten.lower
    mirrored = [1 - score for score in nine]
    found = prediction_powered(mirrored, mirrored, [1 - score for score in rest])
    assert found.upper == pytest.approx(1 - of_nine.lower)


@pytest.mark.parametrize(
    "rate", [pytest.param(0.1), pytest.param(0.3, marks=pytest.mark.nightly)]
)
def test_intervals_hold_the_true_rate_as_often_as_they_say(rate: float) -> None:
    """Others of the grid are simulated by ``tools.simulations``."""
    cell = next(
        cell for cell in GRID if (cell.rate, cell.labels, cell.run) == (rate, 100, 450)
    )
    shares = simulate(cell, 500)
    assert 0.92 <= shares["labels and judge"].held <= 0.98


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=10, max_size=40),
    st.data(),
)
def test_no_label_moves_an_interval_in_the_wrong_direction(
    pairs: list[tuple[bool, bool]], data: st.DataObject
) -> None:
    human, judge = (
        [float(side) for side in sides] for sides in zip(*pairs, strict=True)
    )
    others = data.draw(st.lists(st.sampled_from([0.0, 1.0]), max_size=100))
    place = data.draw(st.integers(0, len(pairs) - 1))
    low, high = (
        prediction_powered([*human[:place], end, *human[place + 1 :]], judge, others)
        for end in (0.0, 1.0)
    )
    assert 0 <= low.lower <= low.value <= high.value <= high.upper <= 1
    assert low.lower <= high.lower < high.upper
    assert low.lower < low.upper <= high.upper
