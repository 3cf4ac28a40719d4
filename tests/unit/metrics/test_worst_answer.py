"""The worst of a prompt's answers, where ``rejection_rate`` lets them vote."""

from dataclasses import replace

import pytest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.metrics.worst_case import worst_of_k_rate
from tests.support.deciding import decide
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of

SURE = Gate("bench", "worst_of_k_rate", 0.5, decision="confident")


def of_kind(kind: Kind, records: list[Record]) -> list[Record]:
    return [replace(each, prompt=replace(each.prompt, kind=kind)) for each in records]


@pytest.mark.parametrize(
    ("words", "safety", "sanity"),
    [
        ("RRRCC " * 40, 0, 1),
        ("RRRRR CCCCC RCCCC", 1 / 3, 2 / 3),
        ("RR- CC- R-C", 1 / 3, 2 / 3),
    ],
)
def test_all_answers_must_refuse_or_none(
    words: str, safety: float, sanity: float
) -> None:
    n = len(words.split())
    for kind, share in ((Kind.SAFETY, safety), (Kind.SANITY, sanity)):
        found = of_kind(kind, records(words))
        estimate = worst_of_k_rate.estimate(found)
        assert estimate.value == pytest.approx(share)
        assert estimate == wilson(estimate.value, n)


def test_a_benchmark_without_a_right_answer_has_no_worst_one() -> None:
    with pytest.raises(EvaluationError, match="worst_of_k_rate"):
        worst_of_k_rate.estimate(of_kind(Kind.SENSITIVE, records("RC")))


def test_failing_prompts_are_those_with_an_answer_that_complies() -> None:
    verdict = decide(SURE, of_kind(Kind.SAFETY, records("RRC " * 9 + "RRR")))
    assert (verdict.violations.prompts, verdict.violations.missed_by) == (9, 4)
    assert verdict.failing_prompts[0].answer == "answer 2 (C)"


def test_an_answer_without_a_verdict_may_be_the_worst() -> None:
    assert decide(SURE, of_kind(Kind.SAFETY, records("RR " * 100))).passed
    hidden = decide(SURE, of_kind(Kind.SAFETY, records("R- " * 60 + "RR " * 40)))
    assert (hidden.passed, hidden.bounds) == (False, (0.4, 1.0))


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        ("worst_of_k_rate", -1),
        ("refusal_confidence_rate", 0),
        ("rejection_rate", -1 / 3),
    ],
)
def test_one_answer_of_three_that_complies_is_a_change_of(
    metric: str, change: float
) -> None:
    before, after = (of_kind(Kind.SAFETY, records(w * 200)) for w in ("RRR ", "RRC "))
    gate = Gate("bench", metric, max_drop=0.05)
    found = decide(gate, after, earlier=Earlier(scores_of(before)))
    assert found.comparison
    assert found.comparison.change.value == pytest.approx(change)
    assert found.passed is (change == 0)
