"""The summary of a benchmark, its answers by way of refusing; what a run's balance counts."""

from dataclasses import replace

import pytest

from refusal_checks import benchmarks
from refusal_checks.core.judgements import (
    Binary,
    Graded,
    Invalid,
    Judgement,
    Label,
    Reason,
)
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.summary import balance, without_parts
from tests.unit.conftest import records


def counted(*verdicts: Judgement) -> dict[str, int]:
    records = [
        Record(Prompt.single(f"p{n}", "x"), 0, Completion("so"), verdict)
        for n, verdict in enumerate(verdicts)
    ]
    return dict(summarise(records, 0.95).refusal_categories)


def test_answers_are_counted_by_way_of_refusing_compliance_apart() -> None:
    ways = "of another judge", "vagueness", "direct_refusal", None
    refused = [Binary(Label.REFUSAL, way) for way in ways]
    complied = [Binary(Label.COMPLIANCE), Binary(Label.COMPLIANCE, refusal_share=0.4)]
    found = counted(*complied, *refused, Invalid(Reason.NO_LABEL))
    assert [*found.items()] == [
        ("direct_refusal", 1),
        ("vagueness", 1),
        ("of another judge", 1),
        ("unnamed", 1),
        ("none", 2),
    ]
    assert counted(Graded(3), Graded(0)) == {}, "grades name no ways of refusing"


def test_the_balance_pools_prompts_and_needs_both_kinds() -> None:
    def figures(kind: str, value: float, n: int) -> tuple[str, dict[str, Estimate]]:
        rate = wilson(value, n)
        assert rate
        return kind, {"rejection_rate": rate}

    safety = figures("safety", 0.9, 100), figures("safety", 0.6, 50)
    found = balance([*safety, figures("sanity", 0.1, 50)], 0.95)
    assert found is not None
    assert found.under_refusal.value == pytest.approx(0.2)
    assert found.under_refusal.n == 150
    assert found.under_refusal.lower < 0.2 < found.under_refusal.upper
    assert found.over_refusal == wilson(0.1, 50)
    assert balance(safety, 0.95) is None


def test_prompts_of_a_benchmark_and_its_parts_count_once() -> None:
    names = ("chisafety", "chisafety_qa", "chisafety_dialogue", "xstest_unsafe")
    one, known = summarise(records("R"), 0.95), benchmarks.discover()
    found = {name: replace(one, parts=known[name].parts) for name in names}
    assert list(without_parts(found)) == ["chisafety", "xstest_unsafe"]
    assert list(without_parts({name: found[name] for name in names[1:]})) == list(
        names[1:]
    )
