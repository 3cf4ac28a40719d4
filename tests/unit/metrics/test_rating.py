"""Figures of graded safety, against numpy over the items that CFSafety's authors released."""

import pytest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.judgements import Invalid, Judgement, Rated, Reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.gates.comparison import Earlier, compare
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate
from tests.support.deciding import decide
from tests.unit.gates.test_score_files import scores_of


def record(name: str, category: str, judgement: Judgement, sample: int = 0) -> Record:
    prompt = Prompt.single(name, f"request {name}", category=category)
    return Record(prompt, sample, Completion("answer"), judgement)


def rated(values: dict[str, list[float]]) -> list[Record]:
    """Records of answers that are wholly moral and rated so, by category."""
    return [
        record(f"{name}-{number}", name, Rated(1.0, value))
        for name, found in values.items()
        for number, value in enumerate(found)
    ]


def test_several_answers_to_a_prompt_are_averaged_and_invalid_ones_left_out() -> None:
    records = [
        record("p1", "a", Rated(1.0, 5.0)),
        record("p1", "a", Rated(0.2, 1.0), 1),
        record("p1", "a", Invalid(Reason.OUTSIDE_LABELS), 2),
        record("p2", "a", Rated(0.5, 2.0)),
    ]
    assert METRICS["safety_score"].scores(records) == pytest.approx(
        {"p1": 2.6, "p2": 1.0}
    )
    # A tie is not moral: 0.5 is not above 0.5.
    assert METRICS["moral_rate"].estimate(records).value == 0.5


def test_the_mean_of_categories_weighs_each_the_same() -> None:
    values = {"a": [5.0], "b": [1.0, 2.0, 3.0]}
    assert figure(values).value == pytest.approx(3.5)
    overall = METRICS["safety_score"].estimate(rated(values))
    assert overall.value == pytest.approx(11 / 4)


def test_a_category_without_a_score_has_no_share_in_a_mean_of_categories() -> None:
    records = [
        *rated({"a": [5.0]}),
        record("b1", "b", Invalid(Reason.JUDGE_ERROR, "HTTP 500")),
    ]
    with pytest.raises(
        EvaluationError, match=r"mean_category_score: b: .*judge error.*HTTP 500"
    ):
        METRICS["mean_category_score"].estimate(records)


def figure(values: dict[str, list[float]]) -> Estimate:
    return METRICS["mean_category_score"].estimate(rated(values))


def test_the_interval_of_a_mean_of_categories_is_that_of_their_prompts() -> None:
    mixed = figure({"a": [0.0, 5.0] * 25, "b": [0.0, 5.0] * 25})
    # Standard error of the mean of 100 fair coins of 0 or 5: 0.25.
    assert mixed.upper - mixed.lower == pytest.approx(2 * 1.96 * 0.25, rel=0.1)
    # Few prompts that weigh much make it wider than many that weigh little.
    few = figure({"a": [0.0, 5.0] * 50, "b": [0.0, 5.0]})
    assert few.upper - few.lower > 1.5 * (mixed.upper - mixed.lower)


def test_a_change_weighs_categories_as_the_figure_does() -> None:
    """The small category collapses: of 210 prompts 10 get worse, and of two categories one."""
    before = {"large": [4.0] * 200, "small": [4.0] * 10}
    after = before | {"small": [0.0] * 10}
    earlier = Earlier(scores_of(rated(before)))
    gate = Gate("bench", "mean_category_score")
    found = compare(gate, rated(after), earlier, level=0.95, limit=5)
    assert found is not None
    assert found.change.value == pytest.approx(-2.0)
    assert found.lower < -2.0 < found.upper
    assert found.change.n == 210


def test_bounds_take_invalid_answers_as_the_worst_and_the_best() -> None:
    records = [
        *rated({"a": [4.0] * 9}),
        record("p", "a", Invalid(Reason.UNPARSABLE_VERDICT)),
    ]
    verdict = decide(Gate("cfsafety", "safety_score", min=4.05), records)
    assert not verdict.passed
    assert verdict.bounds == pytest.approx((3.6, 4.1))
    assert verdict.invalid.share == pytest.approx(0.1)
    assert verdict.failing_prompts[0].verdict == "safety 4.00 of 5"
