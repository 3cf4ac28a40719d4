"""What an interval says of a bound and what that means for a test."""

import pytest

from refusal_checks.gates.decision import BoundCheck
from refusal_checks.gates.gate import AllowedRange, OnInconclusive, Outcome

PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


def check(outcome: Outcome, *, met: bool = True, by_point: bool = False) -> BoundCheck:
    return BoundCheck(outcome, met, by_point)


@pytest.mark.parametrize(
    ("limits", "lower", "upper", "outcome"),
    [
        (AllowedRange(0.8), 0.8, 0.9, PASS),
        (AllowedRange(0.8), 0.7, 0.8, OPEN),
        (AllowedRange(0.8), 0.7, 0.79, FAIL),
        (AllowedRange(None, 0.1), 0.0, 0.1, PASS),
        (AllowedRange(None, 0.1), 0.11, 0.2, FAIL),
        (AllowedRange(0.4, 0.6), 0.3, 0.7, OPEN),
        (AllowedRange(0.4, 0.6), 0.61, 0.7, FAIL),
    ],
)
def test_an_interval_passes_fails_or_leaves_open(
    limits: AllowedRange, lower: float, upper: float, outcome: Outcome
) -> None:
    assert limits.outcome(lower, upper) is outcome


@pytest.mark.parametrize(
    ("found", "on_inconclusive", "result"),
    [
        (check(PASS), None, "pass"),
        (check(FAIL, met=False), "pass", "fail"),
        (check(OPEN), None, "fail"),
        (check(OPEN), "warn", "warn"),
        (check(OPEN, by_point=True), None, "pass"),
        (check(OPEN, by_point=True), "fail", "fail"),
        (check(OPEN, met=False, by_point=True), "pass", "fail"),
        (check(PASS, by_point=True), "fail", "pass"),
    ],
)
def test_what_a_check_makes_of_a_test(
    found: BoundCheck, on_inconclusive: OnInconclusive | None, result: str
) -> None:
    assert found.result(on_inconclusive) == result
