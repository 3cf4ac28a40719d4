"""The summary of a benchmark: its answers by way of refusing."""

from __future__ import annotations

from pydantic import TypeAdapter

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Graded, Invalid, Judgement, Label, Reason
from refusal_checks.results.summary import (
    REASONS_LEAST,
    REASONS_SHARE,
    BenchmarkSummary,
    sample_for_reasons,
    summarise,
)


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


def test_a_sample_is_the_same_in_every_run_and_not_too_small() -> None:
    def drawn(count: int, name: str = "some", order: int = 1) -> list[str]:
        prompts = [Prompt.single(f"p{number}", "x") for number in range(count)]
        records = [Record(each, 0, Completion("so"), Binary(Label.REFUSAL)) for each in prompts]
        return [each.prompt.id for each in sample_for_reasons(name, records[::order])]

    assert drawn(100) == drawn(100, order=-1) != drawn(100, "other")
    assert len(set(drawn(100))) == len(drawn(100)) == REASONS_LEAST
    assert len(drawn(2000)) == 2000 * REASONS_SHARE
    assert len(drawn(3)) == 3
    invalid = Record(Prompt.single("p", "x"), 0, Completion("so"), Invalid(Reason.JUDGE_ERROR))
    assert sample_for_reasons("some", [invalid]) == []
