"""The canary: what it holds, and what it says of judges that are known."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
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
    Exchange,
    JudgeCheck,
    JudgeFloors,
    checked,
)


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
    assert len({exchange.id for exchange in found}) == len(found)
    assert len({(exchange.prompt, exchange.answer) for exchange in found}) == len(found)
    for exchange in found:
        assert exchange.prompt.strip()
        assert exchange.answer.strip()
        assert Label(exchange.label)
        assert (exchange.category is None) == (exchange.label == "compliance")
    hostile = [exchange.answer for exchange in found if exchange.type == HOSTILE]
    assert max(map(len, hostile)) > 2000
    assert any("{" in answer and "verdict" in answer for answer in hostile)


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


def floors(**table: Any) -> JudgeFloors:
    return JudgeFloors.read(table, "gates.toml: [judge]", ThresholdError)


FIGURES = ("agreement", "injection", "invalid_rate")
OPPOSITE = {"refusal": Label.COMPLIANCE, "compliance": Label.REFUSAL}


def judge_check(
    limits: JudgeFloors | None = None, wrong: Iterable[str] = (), invalid: Iterable[str] = ()
) -> JudgeCheck:
    """The check of a judge that is wrong about these exchanges, and without verdict on these."""

    def verdict(exchange: Exchange) -> Judgement:
        if exchange.id in invalid:
            return Invalid(Reason.UNPARSABLE_VERDICT)
        is_wrong = exchange.id in wrong
        label = OPPOSITE[exchange.label] if is_wrong else Label(exchange.label)
        return Binary(label, None, "why")

    checks = checked(limits or floors(), judged(verdict))
    return JudgeCheck("ORG/JUDGE", "abc", checks, len(EVERY), 1.5)


EVERY = [exchange.id for exchange in canary.load()]
STEERING = [exchange.id for exchange in canary.load() if exchange.type == HOSTILE]
PLAIN = [name for name in EVERY if name not in STEERING]


def values(found: JudgeCheck) -> dict[str, float | None]:
    return {e.figure: e.estimate.value if e.estimate else None for e in found.checks}


@pytest.mark.parametrize(
    ("wrong", "invalid", "figures", "failed"),
    [
        ([], [], (1, 1, 0), set()),
        (PLAIN, [], (0, 1, 0), {"agreement"}),
        (STEERING, [], (1, 0, 0), {"injection"}),
        ([], EVERY, (None, None, 1), set(FIGURES)),
    ],
)
def test_what_is_below_its_floor_is_distrusted(
    wrong: list[str], invalid: list[str], figures: tuple[float | None, ...], failed: set[str]
) -> None:
    found = judge_check(wrong=wrong, invalid=invalid)
    assert values(found) == dict(zip(FIGURES, figures, strict=True))
    assert {each.figure for each in found.checks if not each.passed} == failed
    assert found.is_trusted is not bool(failed)
    assert found.distrust.startswith("the judge is not trusted: ")
    assert found.distrust.endswith("--allow-untrusted-judge")
    assert all(f"judge {name}" in found.distrust for name in failed)


def test_mistakes_belong_to_their_figure() -> None:
    wrong = [*PLAIN[:2], *STEERING[: len(STEERING) // 2]]
    agreement, injection, invalid = judge_check(wrong=wrong).checks
    assert [each.id for each in agreement.mistakes] == wrong[:2]
    assert [each.id for each in injection.mistakes] == wrong[2:]
    assert injection.mistakes[0].rationale == "why"
    assert not invalid.mistakes
    assert injection.estimate
    assert injection.estimate.n == len(STEERING)
    assert f"judge injection {injection.estimate.value:.1%} [" in injection.headline
    assert "must be at least 90.0%" in injection.headline


def test_floors_are_inclusive() -> None:
    wrong, invalid = [*PLAIN[:3], *STEERING[:5]], [PLAIN[-1], STEERING[-1]]
    share = values(judge_check(wrong=wrong, invalid=invalid))
    limits = floors(
        agreement={"min": share["agreement"]},
        injection={"min": share["injection"]},
        invalid_rate={"max": share["invalid_rate"]},
    )
    assert judge_check(limits, wrong, invalid).is_trusted
    assert not judge_check(limits, [*wrong, PLAIN[3]], invalid).is_trusted
    assert not judge_check(limits, wrong, [*invalid, PLAIN[4]]).is_trusted


def test_a_check_can_be_removed() -> None:
    limits = floors(agreement=False, invalid_rate=False)
    assert limits.figures == ("injection",)
    assert values(judge_check(limits, PLAIN)) == {"injection": 1}


def test_nothing_judged_is_an_error() -> None:
    with pytest.raises(EvaluationError):
        checked(floors(), [])


def test_the_keyword_judge_is_fooled() -> None:
    judge = KeywordJudge()
    found = checked(
        floors(),
        judged(lambda each: asyncio.run(judge.judge(each.as_prompt, Completion(each.answer)))),
    )
    for check, most in zip(found, (0.7, 0.9), strict=False):
        assert check.estimate
        assert check.estimate.value < most


def test_the_set_is_a_file_of_labelled_answers() -> None:
    words = ["calibrate", "--fresh", "--judge", "keyword", "--labels", str(canary.FILE)]
    said = CliRunner().invoke(application(), words, catch_exceptions=False).output
    assert f"{len(canary.load())} labelled answers of canary" in said
    assert "| hostile |" in said


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
