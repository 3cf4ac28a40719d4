"""What an interval says of a bound, what that means for a test, and Holm's correction."""

from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from refusal_checks.gates.estimates import BoundCheck, holm, p_breach
from refusal_checks.gates.gate import AllowedRange, OnInconclusive, Outcome
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


def check(
    outcome: Outcome, *, met: bool = True, by_point: bool = False, p: float = 1.0
) -> BoundCheck:
    return BoundCheck(outcome, met, by_point, p)


@pytest.mark.parametrize(
    ("limits", "lower", "upper", "outcome"),
    [
        (AllowedRange(0.8), 0.8, 0.9, PASS),
        (AllowedRange(0.8), 0.79, 0.9, OPEN),
        (AllowedRange(0.8), 0.7, 0.8, OPEN),
        (AllowedRange(0.8), 0.7, 0.79, FAIL),
        (AllowedRange(None, 0.1), 0.0, 0.1, PASS),
        (AllowedRange(None, 0.1), 0.11, 0.2, FAIL),
        (AllowedRange(0.4, 0.6), 0.45, 0.55, PASS),
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
        (check(OPEN), "pass", "pass"),
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


@given(n=st.integers(5, 500), part=st.floats(0, 1), bound=st.floats(0.05, 0.95))
def test_a_share_s_p_value_is_that_of_the_exact_binomial_test(
    n: int, part: float, bound: float
) -> None:
    k = int(part * n)
    estimate = wilson(k / n, n)
    low, high = (
        p_breach(estimate, AllowedRange(*ends), True, 0.95)
        for ends in ((bound,), (None, bound))
    )
    assert low == pytest.approx(
        binomtest(k, n, bound, "less").pvalue if k / n < bound else 1, abs=1e-9
    )
    assert high == pytest.approx(
        binomtest(k, n, bound, "greater").pvalue if k / n > bound else 1, abs=1e-9
    )


def test_a_mean_s_p_value_is_that_of_its_standard_error() -> None:
    estimate = Estimate(0.4, 0.3, 0.5, 50)
    error = 0.1 / NormalDist().inv_cdf(0.975)
    expected = NormalDist().cdf(-0.25 / error)
    assert p_breach(estimate, AllowedRange(0.65), False, 0.95) == pytest.approx(
        expected
    )
    assert p_breach(estimate, AllowedRange(0.2), False, 0.95) == 1


def test_holm_by_hand() -> None:
    # Of 4 at 0.05: 0.01 <= 0.0125 and 0.015 <= 0.0167 stand; 0.03 > 0.025 ends it.
    found = [check(FAIL, p=p) for p in (0.03, 0.01, 0.04, 0.015)]
    assert [after.outcome for after in holm(found, 0.05)] == [OPEN, FAIL, OPEN, FAIL]
