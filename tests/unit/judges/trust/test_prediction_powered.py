"""PPI++: figures of the authors' package, the edges, and coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from refusal_checks.core.errors import EvaluationError
from refusal_checks.judges.trust.prediction_powered import prediction_powered, tuned
from refusal_checks.metrics.statistics.intervals import Estimate
from tools.judge_intervals import GRID, MODELS, NEARLY_PERFECT, Cell, draw, read_labels, simulate

Verdicts = NDArray[np.bool_]


@pytest.mark.parametrize(
    ("model", "package", "span"),
    [
        ("gpt4", 0.5026240310077519, (0.4195637749439517, 0.5856842870715521)),
        ("llama2orig", 0.7991274493927125, (0.7005907418985086, 0.8976641568869165)),
        ("mistralinstruct", 0.1440910713609589, (0.046239368071438164, 0.24194277465047961)),
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
    assert found.value == pytest.approx(package, abs=1e-12)
    assert (found.lower, found.upper) == pytest.approx(span, abs=0.03)
    assert found.n == len(human)


def test_a_useless_judge_leaves_the_labels_alone() -> None:
    human, judge = [1.0, 0.0] * 20, [1.0, 1.0, 0.0, 0.0] * 10
    found = tuned(human, judge, [0.0, 1.0] * 100)
    assert found.weight == pytest.approx(0)
    assert found.value == pytest.approx(0.5)


def test_all_labelled_needs_no_judge() -> None:
    assert tuned([1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0], []).value == 0.5
    found = prediction_powered([1.0] * 6 + [0.0] * 6, [0.0] * 12, [])
    assert found.lower < found.value == 0.5 < found.upper


def test_means_of_other_scores() -> None:
    human = [0.2, 0.9, -1.0, 0.4, 1.0, -0.6] * 5
    judge = [score * 0.9 + 0.05 for score in human]
    found = prediction_powered(human, judge, [-0.5, 0.7, 0.1] * 40)
    alone = prediction_powered(human, [0.0] * 30, [0.0] * 120)
    assert found.upper - found.lower < alone.upper - alone.lower
    assert found.lower < found.value < found.upper


def test_few_labels_give_no_interval() -> None:
    with pytest.raises(EvaluationError, match="9 human labels are too few: at least 10"):
        prediction_powered([1.0] * 9, [1.0] * 9, [1.0] * 50)


BITS = st.lists(st.sampled_from([0.0, 1.0]), min_size=10, max_size=80)


@given(pairs=st.lists(st.tuples(*[st.sampled_from([0.0, 1.0])] * 2), min_size=10), others=BITS)
def test_shares_stay_within_0_and_1(pairs: list[tuple[float, float]], others: list[float]) -> None:
    human, judge = zip(*pairs, strict=True)
    found = prediction_powered(human, judge, others)
    assert 0 <= found.lower <= found.value <= found.upper <= 1
    assert found.upper > found.lower


@pytest.mark.parametrize("refused", [0.0, 1.0])
@pytest.mark.parametrize("between", [0.0, 0.1])
def test_an_estimate_beyond_the_range_is_no_certainty(refused: float, between: float) -> None:
    """The judge calls half of the labelled prompts wrongly, as it does none of the others."""
    other = 1.0 - refused
    human = [other, *[refused] * 9]
    judge = [*[other] * 5, *[abs(refused - between)] * 5]
    found = prediction_powered(human, judge, [refused] * 200)
    assert found.value == refused
    assert found.upper - found.lower > 0.2


def test_no_judge_is_so_good_that_a_refusal_less_makes_a_rate_surer() -> None:
    """Ten labels of ten say nothing of the judge's mistakes; nine and one praise it."""
    rest = [1.0] * 380 + [0.0] * 20
    ten = prediction_powered([1.0] * 10, [1.0] * 10, rest)
    nine = prediction_powered([1.0] * 9 + [0.0], [1.0] * 9 + [0.0], rest)
    assert nine.value < ten.value
    assert nine.lower <= ten.lower
    mirrored = prediction_powered([0.0] * 9 + [1.0], [0.0] * 9 + [1.0], [1 - f for f in rest])
    assert mirrored.upper == pytest.approx(1 - nine.lower)


@pytest.mark.parametrize(("labels", "most"), [(10, 0.04), (50, 0.01)])
def test_a_labelled_prompt_that_is_worse_hardly_ever_helps(labels: int, most: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(150):
        rate, sensitivity, specificity = rng.random(), *rng.uniform(0.6, 1, 2)
        people = rng.random(labels + 200) < rate
        judge = rng.random(people.size) < np.where(people, sensitivity, 1 - specificity)
        before = estimate(people, judge, labels)
        for place in np.flatnonzero(people[:labels])[:1]:
            people[place] = judge[place] = False
            assert estimate(people, judge, labels).lower <= before.lower + most


def estimate(people: Verdicts, judge: Verdicts, labels: int) -> Estimate:
    parts = people[:labels], judge[:labels], judge[labels:]
    return prediction_powered(*(part.astype(float).tolist() for part in parts))


STUDIED = [cell for cell in GRID if cell.run == 450 and (cell.labels == 100 or cell.rate == 0.3)]


@pytest.mark.parametrize("cell", STUDIED, ids=str)
def test_intervals_hold_the_true_rate_as_often_as_they_say(cell: Cell) -> None:
    found = simulate(cell, 500)
    assert 0.92 <= found["corrected"].held <= 0.985
    assert 0.92 <= found["PPI++"].held <= 0.98


def test_few_errors_make_intervals_wider_never_too_narrow() -> None:
    for cell in NEARLY_PERFECT:
        found = simulate(cell, 200)
        assert min(found["corrected"].held, found["PPI++"].held) >= 0.92


@pytest.mark.parametrize("labels", [50, 100])
@pytest.mark.parametrize("model", MODELS)
def test_real_labels_of_xstest(mirror: Path, model: str, labels: int) -> None:
    found = draw(mirror, model, labels, 500)
    assert 0.92 <= found["PPI++"].held <= 0.99
    assert found["raw"].held == 0
    assert found["PPI++"].width <= found["labels only"].width
    assert (found["transferred"].held == 0) == (model == "gpt4")
