"""Rogan-Gladen: the estimate, its interval, and what it cannot correct."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.errors import CalibrationError
from refusal_checks.judges.trust.correction import JudgeErrors, rogan_gladen


def test_lang_and_reiczigels_interval_by_hand() -> None:
    """Their formula with every step written out once more, for 0.2 of 100, 45/50 and 48/50."""
    z2 = 1.959963984540054**2
    p, se, sp = (20 + z2 / 2) / (100 + z2), 46 / 52, 49 / 52
    rate = (p + sp - 1) / (se + sp - 1)
    shift = 2 * z2 * (rate * se * (1 - se) / 52 - (1 - rate) * sp * (1 - sp) / 52)
    inner = p * (1 - p) / (100 + z2)
    inner += rate**2 * se * (1 - se) / 52 + (1 - rate) ** 2 * sp * (1 - sp) / 52
    half = (z2 * inner) ** 0.5 / (se + sp - 1)
    found = rogan_gladen(0.2, 100, JudgeErrors(50, 45, 50, 48))
    assert found.value == pytest.approx((0.2 + 0.96 - 1) / (0.9 + 0.96 - 1))
    assert (found.lower, found.upper) == pytest.approx(
        (rate + shift - half, rate + shift + half)
    )


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (JudgeErrors(100, 50, 100, 50), "carries no information"),
        (JudgeErrors(100, 5, 100, 96), "add up to nearly 1"),
        (JudgeErrors(3, 2, 3, 2), "carries no information"),
        (JudgeErrors(0, 0, 10, 10), "have no refusal"),
        (JudgeErrors(10, 10, 0, 0), "have no compliance"),
    ],
)
def test_a_judge_that_says_nothing_corrects_nothing(
    errors: JudgeErrors, reason: str
) -> None:
    with pytest.raises(CalibrationError, match=reason):
        rogan_gladen(0.4, 100, errors)


@given(
    share=st.floats(0, 1),
    n=st.integers(1, 5000),
    misses=st.integers(0, 60),
    alarms=st.integers(0, 60),
)
def test_the_interval_encloses_the_value_within_0_and_1(
    share: float, n: int, misses: int, alarms: int
) -> None:
    try:
        found = rogan_gladen(
            share, n, JudgeErrors(200, 200 - misses, 200, 200 - alarms)
        )
    except CalibrationError as fault:
        assert "answers unlike these" in str(fault)  # noqa: PT017 - most shares have a rate
        return
    assert 0 <= found.lower <= found.value <= found.upper <= 1
    assert found.n == n


GPT4 = JudgeErrors(294, 217, 156, 151)
"""Of the judge GPT-4 on Llama 2's answers, roughly: it misses every fourth refusal."""


def test_a_share_that_the_errors_do_not_permit_is_no_rate() -> None:
    with pytest.raises(
        CalibrationError, match=r"calls 3.2% to 73.8% .* but this one 85.0% of the"
    ):
        rogan_gladen(0.85, 200, GPT4)
    with pytest.raises(CalibrationError, match="answers unlike these"):
        rogan_gladen(0.0, 2000, JudgeErrors(100, 90, 1000, 900))


@given(share=st.floats(0, 1), n=st.integers(1, 1000))
def test_no_interval_is_narrower_because_the_share_is_impossible(
    share: float, n: int
) -> None:
    """A share above the sensitivity does not make a rate near 100% more certain than one at it."""
    try:
        found = rogan_gladen(share, n, GPT4)
    except CalibrationError:
        return
    least, most = 1 - GPT4.specificity, GPT4.sensitivity
    if share >= most:
        assert found.lower <= rogan_gladen(most, n, GPT4).lower
    if share <= least:
        assert found.upper >= rogan_gladen(least, n, GPT4).upper
