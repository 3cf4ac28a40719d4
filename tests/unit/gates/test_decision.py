"""Whether a figure is on the right side of a gate, and who put it there."""

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.gates.decision import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.wording import gate_sentences
from tests.support.deciding import decide
from tests.unit.conftest import record, records


def at_least(minimum: float, metric: str = "rejection_rate") -> Gate:
    return Gate("bench", metric, min=minimum)


def at_most(maximum: float, metric: str = "rejection_rate") -> Gate:
    return Gate("bench", metric, max=maximum)


@pytest.mark.parametrize(
    ("bounds", "refused", "missed_by"),
    [
        (at_least(0.8), 80, None),
        (at_least(0.29), 29, None),  # 0.29 x 100 is a little less than 29
        (at_least(0.29), 20, 9),
        (at_most(0.1), 11, 1),
        (Gate("bench", "rejection_rate", 0.2, 0.3), 19, 1),
        (Gate("bench", "rejection_rate", 0.2, 0.3), 33, 3),
    ],
)
def test_bounds_are_inclusive_and_the_miss_is_counted(
    bounds: Gate, refused: int, missed_by: int | None
) -> None:
    verdict = decide(bounds, records("R " * refused + "C " * (100 - refused)))
    assert verdict.passed is (missed_by is None)
    assert verdict.violations.missed_by == missed_by
    assert verdict.estimate.value == pytest.approx(refused / 100)


MEAN = "mean_refusal_confidence"
SURE = replace(at_least(0.5), decision="confident")


@pytest.mark.parametrize(
    ("gate", "words", "limit", "named", "counted"),
    [
        (
            at_least(0.8),
            "RRR CRR CCR CCC RCRC",
            5,
            "p4 p3 p5 p2",
            4,
        ),  # the most compliant first
        (at_most(0.1), "RRC CCC RRR RC", 5, "p3 p1 p4", 3),  # the most refused first
        (at_least(0.9), "C " * 7 + "R", 0, "", 7),
        (at_least(0.5, MEAN), "R CCC RCC", 5, "p2 p3", 2),
        (at_most(0.02, "invalid_rate"), "R- R-C RRR-", 5, "p1 p2 p3", 3),
    ],
)
def test_failing_prompts_are_those_on_the_wrong_side_worst_first(
    gate: Gate, words: str, limit: int, named: str, counted: int
) -> None:
    verdict = decide(gate, records(words), Rules(failing_prompts=limit))
    assert [
        failing_prompt.id for failing_prompt in verdict.failing_prompts
    ] == named.split()
    assert (verdict.violations.prompts, verdict.passed) == (counted, not counted)
    assert gate.metric == "rejection_rate" or verdict.violations.missed_by is None


@pytest.mark.parametrize(
    ("gate", "refused", "mark"),
    [
        (at_least(0.5), 25, "pass?"),  # its interval begins below 50%
        (replace(at_least(0.5), on_inconclusive="warn"), 25, "warn?"),
        (replace(at_least(0.5), on_inconclusive="fail"), 25, "FAIL?"),
        (replace(at_least(0.5), on_inconclusive="pass"), 15, "FAIL?"),
        (at_least(0.5), 5, "FAIL"),
        (replace(at_least(0.5), decision="confident"), 35, "pass"),
        (SURE, 25, "FAIL?"),
        (replace(SURE, on_inconclusive="pass"), 15, "pass?"),
        (replace(SURE, on_inconclusive="pass"), 5, "FAIL"),
        (replace(SURE, max=0.9), 35, "FAIL?"),
        (replace(SURE, min=None, max=0.5), 35, "FAIL"),
    ],
)
def test_the_figure_or_its_whole_interval_must_be_within_the_bounds(
    gate: Gate, refused: int, mark: str
) -> None:
    verdict = decide(gate, records("R " * refused + "C " * (40 - refused)))
    assert gate_sentences.mark(verdict) == mark


@pytest.mark.parametrize(
    ("bounds", "word", "shown"),
    [(at_least(0.9), "-RCCC", "answer 2 (C)"), (at_most(0.1), "-RRRC", "answer 1 (R)")],
)
def test_a_failing_prompt_shows_the_answer_that_counts_most_against_the_gate(
    bounds: Gate, word: str, shown: str
) -> None:
    (failing_prompt,) = decide(bounds, records(word)).failing_prompts
    assert failing_prompt.answer == shown


def test_a_failing_prompt_has_all_that_a_reader_needs(
    snapshot: SnapshotAssertion,
) -> None:
    turns = (
        Message("user", "first"),
        Message("assistant", "second"),
        Message("user", "third"),
    )
    cases = {
        "a refusal": decide(at_most(0.1), records("RRC", category="fraud")),
        "a conversation": decide(
            at_least(0.9), [replace(record("C"), prompt=Prompt("p", turns))]
        ),
        "no verdicts": decide(at_most(0.1, "invalid_rate"), records("RR -- R-")),
        "no answer": decide(
            at_most(0, "invalid_rate"),
            [*records("R"), replace(record("-"), completion=None)],
        ),
    }
    told = (
        f"{case}: {each}"
        for case, found in cases.items()
        for each in found.failing_prompts
    )
    assert "\n".join(told) == snapshot


def test_a_group_gate_looks_at_its_group_alone() -> None:
    gate = Gate("bench", "rejection_rate", 0.9, group_kind="language", group="zh")
    english, chinese = records("C C C", language="en"), records("R R", language="zh")
    assert decide(gate, english + chinese).estimate.n == 2
    with pytest.raises(EvaluationError):
        decide(gate, english)


@pytest.mark.parametrize(
    ("rule", "words", "bounds", "flips"),
    [
        (at_least(0.8), "R " * 8 + "- " * 2, (0.8, 1.0), False),
        (at_least(0.8), "R " * 8 + "- " * 3, (8 / 11, 1.0), True),
        (at_most(0.1), "C " * 8 + "- ", (0.0, 1 / 9), True),
        (at_most(0.2, "compliance_rate"), "R " * 3 + "- ", (0.0, 0.25), True),
        (at_most(0.5, "invalid_rate"), "R-", (0.5, 0.5), False),
        (at_least(0.0, MEAN), "R C -", (-1 / 3, 1 / 3), True),
    ],
)
def test_bounds_count_the_invalid_answers_one_way_then_the_other(
    rule: Gate, words: str, bounds: tuple[float, float], flips: bool
) -> None:
    verdict = decide(rule, records(words))
    assert verdict.bounds == pytest.approx(bounds)
    assert verdict.invalid.decide is flips


def test_bounds_contain_the_figure_even_if_an_invalid_answer_moves_the_weights() -> (
    None
):
    answers = [("R", None), ("R", None), ("C", 0.0), ("-", -10.0)]
    found = [
        record(verdict, "p1", sample, logprob=logprob)
        for sample, (verdict, logprob) in enumerate(answers)
    ]
    verdict = decide(at_least(0.5, MEAN), found)
    low, high = verdict.bounds
    assert low < 0 < verdict.estimate.value <= high


def test_the_confidence_level_reaches_the_interval() -> None:
    found = decide(at_least(0.1), records("R R C"), Rules(0.5))
    assert found.estimate == wilson(2 / 3, 3, 0.5)
