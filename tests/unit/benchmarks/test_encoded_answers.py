"""Answers in an attack's encoding: what is encoded is read, and what stands around it stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.benchmarks.attacks import base64, character_spacing, rot13


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (
            "Sure: SSBjYW5ub3QgaGVscCB3aXRoIHRoYXQ= (base64)",
            "Sure: I cannot help with that (base64)",
        ),
        ("```\nSSBjYW5ub3QgaGVs\ncCB3aXRoIHRoYXQ=\n```", "```\nI cannot help with that\n```"),
        ("SSBjYW5ub3QgaGVscCB3aXRo", "I cannot help with"),  # cut off by a limit
        ("8J+YgPCfmIDwn5iA8J+YgPCf", "😀😀😀😀"),  # within a character
        ("internationalisation and responsibilities", "internationalisation and responsibilities"),
        ("/wEC/wEC/wEC/wEC/wEC", "/wEC/wEC/wEC/wEC/wEC"),  # bytes that are not text
        ("", ""),
        ("Answer\nSSBjYW5ub3QgaGVscCB3aXRoIHRoYXQ=", "Answer\nI cannot help with that"),
        ("Sure SSBjYW5ub3QgaGVscCB3aXRoIHRoYXQ=", "Sure I cannot help with that"),
        ("Sure SSBjYW5ub3QgaGVs\ncCB3aXRoIHRoYXQ=", "Sure I cannot help with that"),
        (
            "SSBjYW5ub3QgaGVscCB3aXRoIHRo\nHope that helps",
            "I cannot help with th\nHope that helps",
        ),
        ("Here, step-by-step SSBjYW5ub3QgaGVscCB3", "Here, step-by-step I cannot help w"),
        ("Base64 ChatGPT SSBjYW5ub3QgaGVscCB3", "Base64 ChatGPT I cannot help w"),
        ("SSBjYW5ub3QgaGVscCBi\nZQ==", "I cannot help be"),
    ],
)
def test_base64_within_an_answer(answer: str, read: str) -> None:
    assert base64.decode(answer) == read


@pytest.mark.parametrize("said", ["I cannot.", "No.", "No", "I refuse", "I refuse.", "Yes!", "不"])
@pytest.mark.parametrize(
    "around", ["{}", " {}\n", "```\n{}\n```", "```text\n{}\n```", "```base64\n{}```", "`{}`"]
)
def test_a_short_answer_is_base64_where_it_stands_alone(said: str, around: str) -> None:
    assert base64.decode(around.format(base64.encode(said))) == around.format(said)


@pytest.mark.parametrize(
    "answer",
    [
        "Sure", "Stop that", "NONE", "and/or", "COVID-19", "2024", "6666", "YouTube", "JavaScript",
        "GPT4", "Say SSBjYW5ub3Qu, please", "https://example.org/dough", "----------------",
    ],
)  # fmt: skip
def test_words_are_no_base64(answer: str) -> None:
    assert base64.decode(answer) == answer


@given(st.text("Ab3=+/ \n", max_size=60), st.text("aRice \n", max_size=20))
def test_text_that_is_base64_of_nothing_readable_stays(run: str, words: str) -> None:
    assert isinstance(base64.decode(run + words), str)
    assert base64.decode(words) == words


def test_lines_of_rot13_without_a_common_word_are_read_as_the_others_are() -> None:
    recipe = "First you need these:\n1. Flour\n2. Water, salt\n\nKnead dough twice."
    assert rot13.decode(rot13.encode(recipe)) == recipe
    assert rot13.decode(recipe) == recipe
    mixed = f"Here is what you asked for:\n{rot13.encode('Take the flour and the water.')}"
    assert rot13.decode(mixed) == "Here is what you asked for:\nTake the flour and the water."
    assert rot13.decode("Flour") == "Flour"


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("word i n s i d e", "word inside"),
        ("word i n s i d e word", "word inside word"),
        ("You need a b c d things", "You need abcd things"),
        ("Options: A B C D", "Options: ABCD"),
        ("I   c a n n o t   h e l p.", "I cannot help."),
        ('He said: "n e v e r!"', 'He said: "never!"'),
        ("(i n s i d e)", "(inside)"),
        ("**i n s i d e**", "**inside**"),
        ("it's a b c d", "it's abcd"),
        ("it' s a f e", "it' safe"),
        ("a b c", "a b c"),
        ("a, b, c, d, e", "a, b, c, d, e"),
        ("See e.g. a b c d.x", "See e.g. a b c d.x"),
        ("你 好 世 界", "你好世界"),
    ],
)
def test_spaced_letters_within_an_answer(answer: str, read: str) -> None:
    assert character_spacing.decode(answer) == read
