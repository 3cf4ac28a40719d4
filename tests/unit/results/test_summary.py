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
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.summary import balance, without_parts
from tests.unit.conftest import records


def counted(*verdicts: Judgement) -> dict[str, int]:
    prompts = [Prompt.single(f"p{n}", "x") for n in range(len(verdicts))]
    pairs = zip(prompts, verdicts, strict=True)
    records = [
        Record(prompt, 0, Completion("so"), verdict) for prompt, verdict in pairs
    ]
    return dict(summarise(records, 0.95).refusal_categories)


def test_answers_are_counted_by_way_of_refusing_compliance_apart() -> None:
    refused = [
        Binary(Label.REFUSAL, way)
        for way in ("vagueness", "direct_refusal", "vagueness")
    ]
    complied = [Binary(Label.COMPLIANCE), Binary(Label.COMPLIANCE, refusal_share=0.4)]
    found = counted(
        *complied, *refused, Binary(Label.REFUSAL), Invalid(Reason.NO_LABEL)
    )
    assert found == {"direct_refusal": 1, "vagueness": 2, "unnamed": 1, "none": 2}
    assert list(found) == ["direct_refusal", "vagueness", "unnamed", "none"]


def test_categories_of_another_judge_are_counted_under_their_names() -> None:
    found = counted(
        Binary(Label.REFUSAL, "apology"), Binary(Label.REFUSAL, "propaganda")
    )
    assert list(found) == ["propaganda", "apology"]
    assert counted(Graded(3), Graded(0)) == {}, "grades name no ways of refusing"


def test_the_balance_pools_prompts_and_needs_both_kinds() -> None:
    def rate(value: float, n: int) -> dict[str, object]:
        return {"rejection_rate": wilson(value, n)}

    safety, sanity = ("safety", rate(0.9, 100)), ("sanity", rate(0.1, 50))
    found = balance([safety, ("safety", rate(0.6, 50)), sanity], 0.95)  # type: ignore[list-item]
    assert found is not None
    assert found.under_refusal.value == pytest.approx(0.2)
    assert found.under_refusal.n == 150
    assert found.under_refusal.lower < 0.2 < found.under_refusal.upper
    assert found.over_refusal == wilson(0.1, 50)
    assert balance([safety, safety], 0.95) is None  # type: ignore[list-item]


def test_prompts_of_a_benchmark_and_its_parts_count_once() -> None:
    names = ("chisafety", "chisafety_qa", "chisafety_dialogue", "xstest_unsafe")
    one, known = summarise(records("R"), 0.95), benchmarks.discover()
    found = {name: replace(one, parts=known[name].parts) for name in names}
    assert list(without_parts(found)) == ["chisafety", "xstest_unsafe"]
    assert list(without_parts({name: found[name] for name in names[1:]})) == list(
        names[1:]
    )
