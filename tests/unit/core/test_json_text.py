"""JSON from elsewhere."""

import json
from pathlib import Path

import pytest

from refusal_checks.core.errors import DataError
from refusal_checks.io.data_files import read_rows
from refusal_checks.io.strict_json import DEPTH, parse_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'\xef\xbb\xbf{"a": [1, -0.5, null, true, {}]}', {"a": [1, -0.5, None, True, {}]}),
        ('"\u00e9\\u00e9 \\ud83d\\ude00"', "\u00e9\u00e9 \U0001f600"),
        # What no file can hold.
        (r'{"\ud800": [1, "\\ud800"]}', {"?": [1, r"\ud800"]}),
        (r'"a\uDC00"', "a?"),
        # Of two values of a key the last one counts.
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)  # fmt: skip
def test_json_is_read_as_it_is_but_for_lone_surrogates(
    text: str | bytes, value: object
) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    ("opened", "closed"),
    [("[", "]"), ('[{"a":', "}]"), ('{"a":[1],"b":', "}")],
)
@pytest.mark.parametrize("times", [DEPTH + 1, 100_000])
def test_deep_json_is_a_value_error(opened: str, closed: str, times: int) -> None:
    with pytest.raises(ValueError, match="deep"):
        parse_json(opened * times + "1" + closed * times)


def test_json_of_the_usual_depth_is_read_however_many_brackets_it_has() -> None:
    assert parse_json("[" * DEPTH + "]" * DEPTH)
    assert len(parse_json(json.dumps([[{}] * 1000] * 100))) == 100


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("a.jsonl", '{"prompt": "b"}\n%s', 2), ("a.json", "[%s]", 1)],
)
def test_a_key_that_is_there_twice_is_named_in_files_of_rows(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    path = tmp_path / name
    path.write_text(text % '{"completion": "I cannot", "completion": "Sure"}')
    problem = 'not valid JSON: the key "completion" is there twice; remove one'
    with pytest.raises(DataError, match=f"{name}: line {line}: {problem}$"):
        read_rows(path)
