"""JSON from elsewhere."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.files import DEPTH, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ANY = st.text(st.characters(exclude_categories=()))


@given(VALUES)
def test_json_is_read_as_it_is(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text) == value
        assert parse_json(text.encode()) == value
    assert parse_json(b"\xef\xbb\xbf" + json.dumps(value).encode()) == value


@given(st.dictionaries(ANY, st.lists(ANY)))
def test_what_is_read_can_be_written(value: object) -> None:
    assert json.dumps(parse_json(json.dumps(value)), ensure_ascii=False).encode()


@given(ANY | st.binary())
def test_anything_else_is_a_value_error(text: str | bytes) -> None:
    with suppress(ValueError):
        parse_json(text)


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":', "[1,", '{"a":[1],"b":'])
@pytest.mark.parametrize("times", [DEPTH + 1, 900, 100_000])
def test_deep_json_is_a_value_error(opened: str, times: int) -> None:
    closed = "".join("}" if char == "{" else "]" for char in reversed(opened) if char in "[{")
    closed = closed.removeprefix("]") if opened.endswith('],"b":') else closed
    with pytest.raises(ValueError, match="deep"):
        parse_json(opened * times + "1" + closed * times)


def test_json_of_the_usual_depth_is_read_however_many_brackets_it_has() -> None:
    assert parse_json("[" * DEPTH + "]" * DEPTH)
    assert len(parse_json(json.dumps([[{}] * 1000] * 100))) == 100
    with pytest.raises(ValueError, match="digits"):
        parse_json("9" * 5000)
