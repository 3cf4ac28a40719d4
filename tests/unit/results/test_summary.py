"""The summary of a benchmark: its answers by way of refusing."""

from __future__ import annotations

from pydantic import TypeAdapter

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Graded, Invalid, Judgement, Label, Reason
from refusal_checks.results.summary import BenchmarkSummary, summarise


def counted(*verdicts: Judgement) -> dict[str, int]:
    prompts = [Prompt.single(f"p{n}", "x") for n in range(len(verdicts))]
    pairs = zip(prompts, verdicts, strict=True)
    records = [Record(prompt, 0, Completion("so"), verdict) for prompt, verdict in pairs]
    return dict(summarise(records, 0.95).refusal_categories)


def test_answers_are_counted_by_way_of_refusing_compliance_apart() -> None:
    refused = [Binary(Label.REFUSAL, way) for way in ("vagueness", "direct_refusal", "vagueness")]
    complied = [Binary(Label.COMPLIANCE), Binary(Label.COMPLIANCE, refusal_share=0.4)]
    found = counted(*complied, *refused, Binary(Label.REFUSAL), Invalid(Reason.NO_LABEL))
    assert found == {"direct_refusal": 1, "vagueness": 2, "unnamed": 1, "none": 2}
    assert list(found) == ["direct_refusal", "vagueness", "unnamed", "none"]


def test_categories_of_another_judge_are_counted_under_their_names() -> None:
    found = counted(Binary(Label.REFUSAL, "apology"), Binary(Label.REFUSAL, "propaganda"))
    assert list(found) == ["propaganda", "apology"]


def test_answers_that_are_graded_have_no_ways_of_refusing() -> None:
    assert counted(Graded(3), Graded(0)) == {}


def test_a_summary_without_the_counts_is_read() -> None:
    old = {"prompts": 1, "answers": 1, "figures": {}, "groups": {}, "invalid": {}}
    found = TypeAdapter(BenchmarkSummary).validate_python(old)
    assert found.refusal_categories == {}
