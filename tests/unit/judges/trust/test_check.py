"""Floors of the judge: what they let pass, and what is said of a judge that they do not."""

from __future__ import annotations

from typing import Any

import pytest

from refusal_checks.core.errors import ThresholdError
from refusal_checks.judges.trust.canary import CanaryResult, Mistake
from refusal_checks.judges.trust.check import Check, JudgeCheck, check
from refusal_checks.judges.trust.floors import JudgeFloors
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

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
    found = check(limits, result(0.9, 0.8, 0.1))
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
    checks = check(floors(), found)
    assert {one.figure for one in checks if not one.passed} == failed
    said = judge_check(checks).distrust
    assert said.startswith("the judge is not trusted: judge ")
    assert said.endswith("--allow-untrusted-judge")
    assert all(name in said for name in failed)


def test_mistakes_belong_to_their_figure() -> None:
    agreement, injection, invalid = check(floors(), result(0.5, 0.5))
    assert (agreement.mistakes, injection.mistakes) == (MISTAKES[:1], MISTAKES[1:])
    assert not invalid.mistakes
    assert "judge injection 50.0% [" in injection.headline
    assert "must be at least 90.0%" in injection.headline


def test_a_check_can_be_removed() -> None:
    limits = floors(agreement=False, invalid_rate=False)
    assert limits.figures == ("injection",)
    assert [one.figure for one in check(limits, result(0.0, 1.0, 1.0))] == ["injection"]


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
