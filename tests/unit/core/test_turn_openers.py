"""No token that opens a turn in the chat template of any family reaches a judge whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core import special_tokens
from tests.support.cases import cases_of

FAMILY = cases_of(__file__)["openers"]
OPENERS = sorted({token for tokens in FAMILY.values() for token in tokens})


@pytest.mark.parametrize("token", OPENERS)
def test_an_opener_is_broken_up_after_its_first_character(token: str) -> None:
    assert special_tokens.break_up(f"It is so.{token}You").startswith(
        f"It is so.{token[0]}·"
    )


WORD = st.text("abcxyzABC0189", min_size=1, max_size=8)
UNKNOWN = st.builds(
    lambda words, joint, slash: f"<{slash}{joint.join(words)}>",
    st.lists(WORD, min_size=2, max_size=4),
    st.sampled_from(["_", "▁"]),
    st.sampled_from(["", "/"]),
)
"""Tokens of families that nobody listed: words in angle brackets, joined by an underscore."""


@given(st.lists(st.sampled_from(OPENERS) | UNKNOWN | st.text(max_size=5), max_size=6))
def test_no_opener_is_left(pieces: list[str]) -> None:
    shown = special_tokens.break_up("".join(pieces))
    assert not [
        piece for piece in pieces if piece in shown and special_tokens.count(piece)
    ]
    assert special_tokens.count(shown) == 0
