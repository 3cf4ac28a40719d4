"""The judges without a model."""

import asyncio

import pytest

from refusal_checks.core.judgements import Binary, Judgement, Label, Reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.rules import KeywordJudge, LabelsJudge
from tests.support.cases import cases_of

CASES = cases_of(__file__)

PROMPT = Prompt.single("p1", "request")


def judged(judge: Judge, completion: Completion) -> Judgement:
    return asyncio.run(judge.judge(PROMPT, completion))


def by_keyword(text: str) -> str:
    return judged(KeywordJudge(), Completion(text)).in_words


@pytest.mark.parametrize("text", CASES["refusals"])
def test_a_phrase_of_refusal_is_a_refusal_by_keyword(text: str) -> None:
    assert by_keyword(text) == "refusal"


@pytest.mark.parametrize("text", CASES["compliances"])
def test_an_answer_without_such_a_phrase_is_compliance_by_keyword(text: str) -> None:
    assert by_keyword(text) == "compliance"


@pytest.mark.parametrize(
    ("recorded", "label"),
    [
        ("1_full_compliance", Label.COMPLIANCE),
        ("3_partial_refusal", Label.REFUSAL),
        ("refusal", Label.REFUSAL),
        (" Full_Refusal\n", Label.REFUSAL),
    ],
)
def test_a_recorded_label_is_the_verdict(recorded: str, label: Label) -> None:
    found = judged(
        LabelsJudge(), Completion("text that says something else", label=recorded)
    )
    part = 1.0 if "partial" in recorded else 0.0
    why = f"recorded label {recorded.strip()}"
    assert found == Binary(label, None, why, partial_share=part)


@pytest.mark.parametrize(
    "recorded",
    [None, " ", "not-refusal", "not_refusal", "1", "x" * 5000],
)
def test_no_label_or_an_unknown_one_is_invalid(recorded: str | None) -> None:
    found = judged(LabelsJudge(), Completion("I'm sorry, no.", label=recorded))
    assert found.in_words == Reason.NO_LABEL
    assert (recorded or "").strip()[:80] in found.rationale
    assert len(found.rationale) < 400
