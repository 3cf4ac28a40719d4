"""The canary: what it holds, and what it says of judges that are known."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import EvaluationError, ThresholdError
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.text import FAMILIES
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.judges.kinds.refusal import RefusalCategory
from refusal_checks.judges.rules import KeywordJudge
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.canary import (
    HOSTILE,
    CanaryResult,
    Check,
    Exchange,
    JudgeCheck,
    JudgeFloors,
    Mistake,
    checked,
)
from refusal_checks.metrics.statistics.intervals import Estimate, wilson


def judged(verdict: Callable[[Exchange], Judgement]) -> list[Record]:
    """The canary, judged so."""
    return [
        Record(exchange.as_prompt, 0, Completion(exchange.answer), verdict(exchange))
        for exchange in canary.load()
    ]


def test_what_the_set_holds() -> None:
    found = canary.load()
    types = Counter(exchange.type for exchange in found)
    assert len(found) >= 60
    assert types[HOSTILE] >= 15
    assert types.keys() == {
        "refusal", "safe_refusal", "compliance", "disclaimer", "partial", HOSTILE
    }  # fmt: skip
    assert {exchange.language for exchange in found} == {"en", "zh"}
    refusals = [exchange for exchange in found if exchange.type == "refusal"]
    for language in ("en", "zh"):
        categories = {e.category for e in refusals if e.language == language}
        assert categories == set(map(str, RefusalCategory))


def test_every_exchange_is_whole_and_its_own() -> None:
    found = canary.load()
    assert len({exchange.id for exchange in found}) == len(found)
    assert len({(exchange.prompt, exchange.answer) for exchange in found}) == len(found)
    for exchange in found:
        assert exchange.prompt.strip()
        assert exchange.answer.strip()
        assert Label(exchange.label)
        assert (exchange.category is None) == (exchange.label == "compliance")


def test_hostile_answers_push_both_ways_and_one_is_very_long() -> None:
    hostile = [exchange for exchange in canary.load() if exchange.type == HOSTILE]
    assert {exchange.label for exchange in hostile} == {"refusal", "compliance"}
    assert max(len(exchange.answer) for exchange in hostile) > 2000
    assert any("{" in exchange.answer and "verdict" in exchange.answer for exchange in hostile)


def test_hostile_texts_forge_turns_of_every_family_in_both_languages() -> None:
    """Their special tokens are the most direct way into a judge's own instructions."""
    for language in ("en", "zh"):
        hostile = [e for e in canary.load() if (e.type, e.language) == (HOSTILE, language)]
        texts = [text for e in hostile for text in (e.prompt, e.answer)]
        for token in (
            "<|im_start|>", "<|eot_id|>", "<<SYS>>", "[SYSTEM_PROMPT]", "<start_of_turn>",
            "<｜User｜>", "<|system|>", "<|channel|>", "[gMASK]", "<tool_response>",
        ):  # fmt: skip
            assert any(token in text for text in texts), (language, token)
        assert any(FAMILIES.count(e.prompt) for e in hostile)
        forged = [e for e in hostile if FAMILIES.count(e.prompt, e.answer)]
        assert {e.label for e in forged} == {"refusal", "compliance"}


def test_the_set_is_frozen() -> None:
    """Figures of two releases are comparable: a change of the file is a change of this line."""
    assert canary.digest() == ("d3c76cdb07e6a9da268e1c9c6c469756645d4b369139ef722588330a612e6f5b")


def test_a_perfect_judge() -> None:
    found = canary.measure(judged(lambda exchange: Binary(Label(exchange.label))))
    assert found.agreement
    assert found.injection
    assert (found.agreement.value, found.injection.value, found.invalid_rate.value) == (1, 1, 0)
    assert found.agreement.n + found.injection.n == len(canary.load())
    assert not found.mistakes


def test_a_judge_that_hostile_answers_steer() -> None:
    opposite = {"refusal": Label.COMPLIANCE, "compliance": Label.REFUSAL}

    def verdict(exchange: Exchange) -> Judgement:
        steered = exchange.type == HOSTILE
        return Binary(opposite[exchange.label] if steered else Label(exchange.label))

    found = canary.measure(judged(verdict))
    assert found.agreement
    assert found.injection
    assert (found.agreement.value, found.injection.value) == (1, 0)
    assert {mistake.type for mistake in found.mistakes} == {HOSTILE}


def test_a_judge_without_verdicts() -> None:
    found = canary.measure(judged(lambda exchange: Invalid(Reason.UNPARSABLE_VERDICT)))
    assert (found.agreement, found.injection, found.invalid_rate.value) == (None, None, 1)
    with pytest.raises(EvaluationError):
        canary.measure([])


def test_the_keyword_judge_is_fooled() -> None:
    judge = KeywordJudge()
    records = judged(
        lambda exchange: asyncio.run(judge.judge(exchange.as_prompt, Completion(exchange.answer)))
    )
    found = canary.measure(records)
    assert found.agreement
    assert found.injection
    assert found.agreement.value < 0.7
    assert found.injection.value < 0.9


def test_the_set_is_a_file_of_labelled_answers() -> None:
    words = ["calibrate", "--fresh", "--judge", "keyword", "--labels", str(canary.FILE)]
    said = CliRunner().invoke(application(), words, catch_exceptions=False).output
    assert f"{len(canary.load())} labelled answers of canary" in said
    assert "| hostile |" in said


def test_the_file_has_nothing_but_its_fields() -> None:
    lines = canary.FILE.read_text(encoding="utf-8").splitlines()
    assert {tuple(json.loads(line)) for line in lines if line.startswith("{")} == {
        ("id", "type", "label", "category", "language", "prompt", "answer")
    }


MISTAKES = (
    Mistake("canary-001", "refusal", "refusal", "compliance", "why"),
    Mistake("canary-060", "hostile", "refusal", "compliance", "why"),
)


def floors(**table: Any) -> JudgeFloors:
    return JudgeFloors.read(table, "gates.toml: [judge]", ThresholdError)


def result(
    agreement: float | None = 1.0, injection: float | None = 1.0, invalid: float = 0.0
) -> CanaryResult:
    def share(value: float | None, n: int) -> Estimate | None:
        return None if value is None else wilson(value, n)

    return CanaryResult(share(agreement, 50), share(injection, 20), wilson(invalid, 70), MISTAKES)


def judge_check(checks: tuple[Check, ...]) -> JudgeCheck:
    return JudgeCheck("ORG/JUDGE", "abc", checks, 70, 1.5)


def test_floors_are_inclusive() -> None:
    limits = floors(agreement={"min": 0.9}, injection={"min": 0.8}, invalid_rate={"max": 0.1})
    found = checked(limits, result(0.9, 0.8, 0.1))
    assert [one.figure for one in found] == ["agreement", "injection", "invalid_rate"]
    assert judge_check(found).is_trusted


@pytest.mark.parametrize(
    ("found", "failed"),
    [
        (result(agreement=0.5), {"agreement"}),
        (result(injection=0.5), {"injection"}),
        (result(invalid=0.5), {"invalid_rate"}),
        (result(agreement=None, injection=None, invalid=1.0), {*JudgeFloors().figures}),
    ],
)
def test_what_is_below_its_floor_is_distrusted(found: CanaryResult, failed: set[str]) -> None:
    checks = checked(floors(), found)
    assert {one.figure for one in checks if not one.passed} == failed
    said = judge_check(checks).distrust
    assert said.startswith("the judge is not trusted: judge ")
    assert said.endswith("--allow-untrusted-judge")
    assert all(name in said for name in failed)


def test_mistakes_belong_to_their_figure() -> None:
    agreement, injection, invalid = checked(floors(), result(0.5, 0.5))
    assert (agreement.mistakes, injection.mistakes) == (MISTAKES[:1], MISTAKES[1:])
    assert not invalid.mistakes
    assert "judge injection 50.0% [" in injection.headline
    assert "must be at least 90.0%" in injection.headline


def test_a_check_can_be_removed() -> None:
    limits = floors(agreement=False, invalid_rate=False)
    assert limits.figures == ("injection",)
    assert [one.figure for one in checked(limits, result(0.0, 1.0, 1.0))] == ["injection"]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"agreement": {"max": 0.9}}, "gates.toml: .judge.: agreement"),
        ({"agreement": {"min": 1.5}}, "agreement.min = 1.5: must be at most 1"),
        ({"agreement": {"min": 95}}, "agreement.min = 95: write 0.95: "),
        ({"agreement": {"mn": 0.9}}, 'agreement.mn = 0.9: no such key; did you mean "min"'),
        ({"agreement": True}, "write { min = ... }"),
        ({"agreement": 0.9}, "agreement = 0.9: write { min = 0.9 }"),
        ({"agrement": {"min": 0.9}}, "known: agreement, injection, invalid_rate"),
        ({"invalid_rate": {"min": 0.9}}, "invalid_rate"),
    ],
)
def test_wrong_floors(table: dict[str, Any], reason: str) -> None:
    with pytest.raises(ThresholdError, match=reason):
        floors(**table)
