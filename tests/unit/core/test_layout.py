"""Text fitted into a terminal, and words for messages."""

from collections.abc import Callable
from typing import Any

import pytest

from refusal_checks.core.layout import shorten_names, table, truncate
from refusal_checks.core.text import (
    count,
    describe_value,
    format_duration,
    join_names,
    join_words,
)


@pytest.mark.parametrize(
    ("names", "width", "shown"),
    [
        (["org/base-7b-v1", "org/base-7b-v2"], 9, ["org/ba…v1", "org/ba…v2"]),
        (["x" * 20 + "-one-more", "x" * 20 + "-two"], 8, ["…one-mo…", "xxxx…two"]),
        (["same-name"], 5, ["sa…me"]),
    ],
)
def test_names_are_shortened_where_they_are_alike(
    names: list[str], width: int, shown: list[str]
) -> None:
    assert shorten_names(names, width) == shown


def test_texts_take_their_columns() -> None:
    assert [truncate(text, 4) for text in ("wordy", "好好好")] == ["wor…", "好 …"]
    rows = [["name", "n"], ["longer", "10"]]
    assert list(table(rows, right=[1])) == ["name     n", "longer  10"]
    assert [len(line) for line in table([["x" * 50, "10"]], width=20)] == [20]


@pytest.mark.parametrize(
    ("words", "value", "shown"),
    [
        (describe_value, "a text of several words", "str of 23 characters"),
        (describe_value, [1, "two words"], "list"),
        (join_names, ["a", "a text of several words"], "a and 1 more"),
        (join_names, ["a text of several words"], "1 longer name"),
        (join_words, ["harm", "degrees", "harm"], "degrees and harm"),
        (format_duration, 89, "89 s"),
        (format_duration, 7200, "2.0 h"),
        (lambda number: count(number, "prompt"), 1, "1 prompt"),
    ],
)
def test_words_for_messages(
    words: Callable[[Any], str], value: Any, shown: str
) -> None:
    assert words(value) == shown
