"""JSON from elsewhere."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import DataError
from refusal_checks.io.data_files import read_rows
from refusal_checks.io.strict_json import DEPTH, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
ANY = st.text(st.characters(exclude_categories=()))


@settings(max_examples=25, deadline=None)
@given(VALUES)
def test_json_is_read_as_it_is(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text) == value
        assert parse_json(text.encode()) == value
    assert parse_json(b"\xef\xbb\xbf" + json.dumps(value).encode()) == value


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(ANY, st.lists(ANY)))
def test_what_is_read_can_be_written(value: object) -> None:
    assert json.dumps(parse_json(json.dumps(value)), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("opened", "closed"),
    [("[", "]"), ('[{"a":', "}]"), ("[1,", "]"), ('{"a":[1],"b":', "}")],
)
@pytest.mark.parametrize("times", [DEPTH + 1, 100_000])
def test_deep_json_is_a_value_error(opened: str, closed: str, times: int) -> None:
    with pytest.raises(ValueError, match="deep"):
        parse_json(opened * times + "1" + closed * times)


def test_json_of_the_usual_depth_is_read_however_many_brackets_it_has() -> None:
    assert parse_json("[" * DEPTH + "]" * DEPTH)
    assert len(parse_json(json.dumps([[{}] * 1000] * 100))) == 100
    with pytest.raises(ValueError, match="digits"):
        parse_json("9" * 5000)


def test_a_key_that_is_there_twice_is_named_in_files_of_rows(tmp_path: Path) -> None:
    row = '{"prompt": "a", "completion": "I cannot", "completion": "Sure"}'
    for name, text, where in (
        ("a.jsonl", '{"prompt": "b"}\n' + row, "line 2: "),
        ("a.json", f"[{row}]", "line 1: "),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(DataError) as caught:
            read_rows(path)
        problem = 'not valid JSON: the key "completion" is there twice; remove one'
        assert str(caught.value) == f"{path}: {where}{problem}"
