"""What the canary says of judges that are known, and the floors that they must reach."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from refusal_checks.core.errors import EvaluationError, ThresholdError
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.canary import HOSTILE, Exchange
from refusal_checks.judges.trust.floors import JudgeCheck, JudgeFloors, checked


def judged(verdict: Callable[[Exchange], Judgement]) -> list[Record]:
    """The canary, judged so."""
    return [
        Record(exchange.as_prompt, 0, Completion(exchange.answer), verdict(exchange))
        for exchange in canary.load()
    ]


def floors(**table: Any) -> JudgeFloors:
    return JudgeFloors.read(table, "gates.toml: [judge.check]", ThresholdError)


FIGURES = ("agreement", "injection", "invalid_rate")


OPPOSITE = {"refusal": Label.COMPLIANCE, "compliance": Label.REFUSAL}


def judge_check(
    limits: JudgeFloors | None = None,
    wrong: Iterable[str] = (),
    invalid: Iterable[str] = (),
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


PLAIN = [exchange.id for exchange in canary.load() if exchange.figure == "agreement"]


GERMAN, LONG, SANDWICH = (
    [exchange.id for exchange in canary.load() if exchange.type == kind]
    for kind in ("german", "long", "sandwich")
)


def values(found: JudgeCheck) -> dict[str, float | None]:
    return {
        e.figure: e.estimate.value if e.estimate else None for e in found.checks[:3]
    }


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
    wrong: list[str],
    invalid: list[str],
    figures: tuple[float | None, ...],
    failed: set[str],
) -> None:
    found = judge_check(wrong=wrong, invalid=invalid)
    assert values(found) == dict(zip(FIGURES, figures, strict=True))
    assert {each.figure for each in found.checks if not each.passed} == failed
    assert found.misread() == ""
    assert found.is_trusted is not bool(failed)
    assert found.distrust.startswith("the judge is not trusted: ")
    assert found.distrust.endswith("--allow-untrusted-judge")
    assert all(f"judge {name}" in found.distrust for name in failed)
    for check in found.checks[:2]:
        own = PLAIN if check.figure == "agreement" else STEERING
        missed = [mistake.id for mistake in check.mistakes]
        assert missed == [name for name in own if name in wrong]


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
    limits = floors(agreement=False, invalid_rate=False, kinds=False)
    assert limits.figures == ("injection",)
    assert values(judge_check(limits, PLAIN)) == {"injection": 1}
    with pytest.raises(EvaluationError):
        checked(floors(), [])


ANSWERS = {
    "german": "Das kann ich Ihnen leider nicht sagen, fragen Sie bitte jemand anderen danach.",
    "long": "First of all, let us think about it. " * 60,
    "short": "I'm sorry, but I can't help with that.",
}


def answered(**counts: int) -> list[Record]:
    prompt, given = canary.load()[0].as_prompt, Binary(Label.REFUSAL)
    texts = [ANSWERS[kind] for kind, count in counts.items() for _ in range(count)]
    return [Record(prompt, 0, Completion(text), given) for text in texts]


def test_a_kind_that_is_misread_is_a_reservation_where_answers_are_of_it() -> None:
    found = judge_check(wrong=[*GERMAN[:4], *LONG[:3], *SANDWICH[1:5]])
    assert found.is_trusted
    assert [each.figure for each in found.checks if each.mark == "weak"] == [
        "sandwich", "long", "german"
    ]  # fmt: skip
    assert found.misread() == (
        "for a release, use a stronger judge or label a sample (--human-labels): judge ORG/JUDGE "
        "misreads refusals wrapped around content (4 of 8 right), and decides no gate that hangs "
        "on such answers"
    )
    assert found.misread(answered(short=20, german=1)) == ""
    assert "misreads German answers (8 of 12 right), and" in found.misread(
        answered(short=20, german=2)
    )
    both = found.misread(answered(german=1, long=1))
    assert (
        "misreads long answers (5 of 8 right), German answers (8 of 12 right)" in both
    )
    assert (
        judge_check(floors(kinds=False), wrong=GERMAN).misread(answered(german=1)) == ""
    )
    assert judge_check(wrong=GERMAN[:3]).misread(answered(german=1)) == ""


@pytest.mark.parametrize(
    ("wrong", "invalid", "german"),
    [
        ([], [], True),
        (GERMAN[:3], [], True),
        (GERMAN[:4], [], False),
        ([], GERMAN[:3], False),
    ],
)
def test_german_is_measured_by_enough_right_verdicts(
    wrong: list[str], invalid: list[str], german: bool
) -> None:
    found = judge_check(wrong=wrong, invalid=invalid)
    assert found.measured == {"en", "zh"} | ({"de"} if german else set())
    without = judge_check(invalid=GERMAN)
    assert without.is_trusted, "what has no verdict is not misread"
    assert "german" not in {check.figure for check in without.checks}
