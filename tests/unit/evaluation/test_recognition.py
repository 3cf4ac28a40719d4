"""When a server that is asked again counts as another one."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.prompts import Kind
from refusal_checks.core.verdicts import Binary, Label, Rated
from refusal_checks.evaluation.recognition import (
    LEVEL,
    Repetition,
    Trait,
    agreement,
    distance,
    is_other,
    likeness,
)

OLD = "I cannot help with that request."
NEW = "Sure, here is a short overview of what you asked for."


@pytest.mark.parametrize(
    ("changed", "size", "expected"),
    [
        (2, 20, (2, False)),
        (3, 20, (3, True)),
        (1, 3, (1, False)),
        (2, 2, (2, True)),
        (1, 1, (1, True)),
        (5, 60, (5, False)),  # other roundings flip a few
        (6, 60, (6, True)),
    ],
)
def test_answers_that_a_steady_server_no_longer_gives_are_counted(
    changed: int, size: int, expected: tuple[int, bool]
) -> None:
    now = [NEW] * changed + [OLD] * (size - changed)
    assert Repetition([OLD] * size, now, now).differing(likeness) == expected


def test_a_server_that_says_what_is_stored_is_asked_once() -> None:
    assert Repetition([OLD], [OLD]).differing(likeness) == (0, False)


WORDS = [*"abcdefghijklmnopqrstuvwxyz"]


def drawn(chance: random.Random, words: list[str]) -> str:
    """A server without seeds: another text each time."""
    return " ".join(chance.choices(words, k=12))


def test_a_server_that_never_repeats_itself_is_rarely_taken_for_another_one() -> None:
    chance, trials = random.Random(5), 100
    alarms = 0
    for _ in range(trials):
        columns = [[drawn(chance, WORDS) for _ in range(20)] for _ in range(3)]
        alarms += Repetition(*columns).differing(likeness)[1]
    expected = LEVEL * trials
    assert alarms < expected + 3 * math.sqrt(expected)
    now, again = ([drawn(chance, WORDS[:10]) for _ in range(20)] for _ in range(2))
    other = [drawn(chance, WORDS[10:]) for _ in range(20)]
    assert Repetition(other, now, again).differing(likeness)[1]


TOKENS = st.dictionaries(st.sampled_from("abcdef"), st.floats(-20, 0), min_size=1)


@settings(max_examples=20)
@given(TOKENS, TOKENS, st.text(), st.text())
def test_distance_and_likeness_are_symmetric_and_bounded(
    one: dict[str, float], other: dict[str, float], text: str, other_text: str
) -> None:
    assert distance(one, one) == 0
    assert distance(one, other) == pytest.approx(distance(other, one))
    assert 0 <= distance(one, other) <= 20
    assert likeness(text, text) == 1
    assert 0 <= likeness(text, other_text) == likeness(other_text, text) <= 1


def test_weights_that_changed_for_some_prompts_are_others() -> None:
    usual, rounded, moved = (
        {"I": first, "Sure": second}
        for first, second in ((-0.1, -2.4), (-0.2, -2.1), (-2.4, -0.1))
    )
    kinds = [Kind.SAFETY] * 10 + [Kind.SANITY] * 10
    kept = [Trait(kind, (), usual) for kind in kinds]
    assert not is_other(kept, [rounded] * 20)
    assert not is_other(kept, [moved] + [rounded] * 19)
    assert is_other(kept, [moved] * 2 + [rounded] * 18), "by far, though few"
    apart = {"I": -0.7, "Sure": -1.2}
    assert not is_other(kept, [apart] * 4 + [rounded] * 16)
    assert is_other(kept, [apart] * 6 + [rounded] * 14), (
        "most of a kind, though not by far"
    )


def test_rounding_makes_no_other_rating() -> None:
    assert agreement(Rated(0.9, 4.0, 0.1), Rated(0.91, 4.1, 0.1)) == 1
    assert agreement(Rated(0.9, 4.0, 0.1), Rated(0.5, 4.0, 0.1)) == 0
    refusal, compliance = Binary(Label.REFUSAL, "none", "why"), Binary(Label.COMPLIANCE)
    assert agreement(refusal, Binary(Label.REFUSAL, "direct_refusal", "because")) == 1
    assert agreement(refusal, compliance) == 0
