"""Rates from a judge's verdicts and labels of a sample: the estimate and its interval."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from refusal_checks.core.errors import EvaluationError
from refusal_checks.judges.trust.powered_rates import prediction_powered
from refusal_checks.metrics.statistics.intervals import Estimate
from tools.simulations.judge_intervals import (
    GRID,
    Cell,
    read_labels,
    simulate,
)

Verdicts = NDArray[np.bool_]


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
    human, judge = (side.astype(float) for side in read_labels(mirror, model))
    labelled = [number % 9 == 0 for number in range(len(human))]
    rest = [not part for part in labelled]
    found = prediction_powered(
        *(s.tolist() for s in (human[labelled], judge[labelled], judge[rest]))
    )
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


@pytest.mark.parametrize("refused", [0.0, 1.0])
@pytest.mark.parametrize("between", [0.0, 0.1])
def test_an_estimate_beyond_the_range_is_no_certainty(
    refused: float, between: float
) -> None:
    """The judge calls half of the labelled prompts wrongly, as it does none of the others."""
    other = 1.0 - refused
    human = [other, *[refused] * 9]
    judge = [*[other] * 5, *[abs(refused - between)] * 5]
    found = prediction_powered(human, judge, [refused] * 200)
    assert found.value == pytest.approx(refused, abs=0.01)
    assert found.upper - found.lower > 0.2


def test_no_judge_is_so_good_that_a_refusal_less_makes_a_rate_surer() -> None:
    """Ten labels of ten say nothing of the judge's mistakes; nine and one praise it."""
    rest = [1.0] * 380 + [0.0] * 20
    ten = prediction_powered([1.0] * 10, [1.0] * 10, rest)
    nine = prediction_powered([1.0] * 9 + [0.0], [1.0] * 9 + [0.0], rest)
    assert nine.value < ten.value
    assert nine.lower <= ten.lower
    mirrored = prediction_powered(
        [0.0] * 9 + [1.0], [0.0] * 9 + [1.0], [1 - f for f in rest]
    )
    assert mirrored.upper == pytest.approx(1 - nine.lower)


def test_a_labelled_prompt_that_is_worse_hardly_ever_helps() -> None:
    rng = np.random.default_rng(4)
    labels = 50
    for _ in range(60):
        rate, sensitivity, specificity = rng.random(), *rng.uniform(0.6, 1, 2)
        people = rng.random(labels + 200) < rate
        judge = rng.random(people.size) < np.where(people, sensitivity, 1 - specificity)
        before = estimate(people, judge, labels)
        for place in np.flatnonzero(people[:labels])[:1]:
            people[place] = judge[place] = False
            assert estimate(people, judge, labels).lower <= before.lower + 0.01


def estimate(people: Verdicts, judge: Verdicts, labels: int) -> Estimate:
    parts = people[:labels], judge[:labels], judge[labels:]
    return prediction_powered(*(part.astype(float).tolist() for part in parts))


STUDIED = [
    cell
    for cell in GRID
    if cell.run == 450 and (cell.labels == 100 or cell.rate == 0.3)
]


@pytest.mark.parametrize(
    "cell",
    [
        STUDIED[0],
        *(pytest.param(cell, marks=pytest.mark.nightly) for cell in STUDIED[1:]),
    ],
    ids=str,
)
def test_intervals_hold_the_true_rate_as_often_as_they_say(cell: Cell) -> None:
    found = simulate(cell, 500)
    assert 0.92 <= found["corrected"].held <= 0.985
    assert 0.92 <= found["labels and judge"].held <= 0.98


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
    others = [1.0] * data.draw(st.integers(0, 100)) + [0.0] * data.draw(
        st.integers(0, 100)
    )
    place = data.draw(st.integers(0, len(pairs) - 1))
    low, high = (
        prediction_powered([*human[:place], end, *human[place + 1 :]], judge, others)
        for end in (0.0, 1.0)
    )
    assert 0 <= low.lower <= low.value <= high.value <= high.upper <= 1
    assert low.lower <= high.lower < high.upper
    assert low.lower < low.upper <= high.upper
