"""Sentences left out one at a time."""

from __future__ import annotations

import pytest

from refusal_checks.judges.sentences import MOST, without_each


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        (["One. Two!  Three?"], {"One.": ["Two!  Three?"], "Two!": ["One.  Three?"],
                                "Three?": ["One. Two!"]}),
        (["我不能。我可以！好"], {"我不能。": ["我可以！好"], "我可以！": ["我不能。好"],
                         "好": ["我不能。我可以！"]}),
        (["She said “no.” Then left"], {"She said “no.”": ["Then left"],
                                        "Then left": ["She said “no.”"]}),
        (["- a\n- b"], {"- a": ["- b"], "- b": ["- a"]}),
        (["Head one. Two", "tail. End."], {"Head one.": ["Two", "tail. End."],
                                           "Two": ["Head one.", "tail. End."],
                                           "tail.": ["Head one. Two", "End."],
                                           "End.": ["Head one. Two", "tail."]}),
        (["Version 3.14 is e.g.here"], {}),
        (["... !!! ?"], {}),
        (["One. ---"], {}),
        ([""], {}),
    ],
)  # fmt: skip
def test_each_sentence_is_left_out_once(parts: list[str], found: dict[str, list[str]]) -> None:
    assert {sentence: list(left) for sentence, left in without_each(parts)} == found


def test_long_answers_are_looked_at_where_they_begin_and_end() -> None:
    tried = without_each([" ".join(f"S{n}." for n in range(40))])
    assert len(tried) == MOST
    assert [sentence for sentence, _ in tried] == [
        *(f"S{n}." for n in range(6)), *(f"S{n}." for n in range(34, 40))
    ]  # fmt: skip
