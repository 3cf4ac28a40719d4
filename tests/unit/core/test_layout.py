"""Text fitted into a terminal, and words for messages."""

from collections.abc import Callable
from typing import Any

import pytest

from refusal_checks.core.layout import columns, cut, table, told_apart
from refusal_checks.core.text import brief, count, duration, in_a_row, listed


@pytest.mark.parametrize(
    ("names", "width", "shown"),
    [
        (["a", "b"], 9, ["a", "b"]),
        (["org/base-7b-v1", "org/base-7b-v2"], 9, ["org/ba…v1", "org/ba…v2"]),
        (["x" * 20 + "-one-more", "x" * 20 + "-two"], 8, ["…one-mo…", "xxxx…two"]),
        (["same-name"], 5, ["sa…me"]),
    ],
)
def test_names_are_shortened_where_they_are_alike(
    names: list[str], width: int, shown: list[str]
) -> None:
    assert told_apart(names, width) == shown


def test_texts_take_their_columns() -> None:
    assert columns("好a") == 3
    assert (cut("word", 4), cut("wordy", 4), cut("好好好", 4)) == (
        "word",
        "wor…",
        "好 …",
    )
    rows = [["name", "n"], ["longer", "10"]]
    assert list(table(rows, right=[1])) == ["name     n", "longer  10"]
    assert [len(line) for line in table([["x" * 50, "10"]], width=20)] == [20]


@pytest.mark.parametrize(
    ("words", "value", "shown"),
    [
        (brief, "short", "'short'"),
        (brief, "a text of several words", "str of 23 characters"),
        (brief, [1, "two words"], "list"),
        (listed, ["b", "a"], "a, b"),
        (listed, ["a", "a text of several words"], "a and 1 more"),
        (listed, ["a text of several words"], "1 longer name"),
        (in_a_row, ["harm", "degrees", "harm"], "degrees and harm"),
        (in_a_row, ["harm"], "harm"),
        (duration, 89, "89 s"),
        (duration, 600, "10 min"),
        (duration, 7200, "2.0 h"),
        (lambda number: count(number, "prompt"), 1, "1 prompt"),
    ],
)
def test_words_for_messages(
    words: Callable[[Any], str], value: Any, shown: str
) -> None:
    assert words(value) == shown
