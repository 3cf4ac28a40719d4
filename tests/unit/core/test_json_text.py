"""JSON from elsewhere."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.json_text import DEPTH, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ANY = st.text(st.characters(exclude_categories=()))


@given(VALUES)
def test_json_is_read_as_it_is(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse(text) == value
        assert parse(text.encode()) == value
    assert parse(b"\xef\xbb\xbf" + json.dumps(value).encode()) == value


@given(st.dictionaries(ANY, st.lists(ANY)))
def test_what_is_read_can_be_written(value: object) -> None:
    assert json.dumps(parse(json.dumps(value)), ensure_ascii=False).encode()


@given(ANY | st.binary())
def test_anything_else_is_a_value_error(text: str | bytes) -> None:
    with suppress(ValueError):
        parse(text)


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":', "[1,", '{"a":[1],"b":'])
@pytest.mark.parametrize("times", [DEPTH + 1, 900, 100_000])
def test_deep_json_is_a_value_error(opened: str, times: int) -> None:
    closed = "".join("}" if char == "{" else "]" for char in reversed(opened) if char in "[{")
    closed = closed.removeprefix("]") if opened.endswith('],"b":') else closed
    with pytest.raises(ValueError, match="deep"):
        parse(opened * times + "1" + closed * times)


def test_json_of_the_usual_depth_is_read_however_many_brackets_it_has() -> None:
    assert parse("[" * DEPTH + "]" * DEPTH)
    assert len(parse(json.dumps([[{}] * 1000] * 100))) == 100
    with pytest.raises(ValueError, match="digits"):
        parse("9" * 5000)
