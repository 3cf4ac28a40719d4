"""Batch files: what is written, and what is made of any line that comes back."""

import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import StoreError, UserError
from refusal_checks.engines.batch.inbox import (
    Inbox,
    ResultLine,
    read_result,
    read_results,
)

BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "héllo\n\ud800"}],
    "n": 2,
}
ANSWER = {"choices": [{"index": 0, "message": {"content": "yes"}}]}


def line(**fields: object) -> bytes:
    response = {"status_code": 200, "body": ANSWER}
    return json.dumps(
        {"custom_id": "a", "response": response, "error": None, **fields}
    ).encode()


def test_a_request_is_one_line_of_ascii(tmp_path: Path) -> None:
    with closing(Inbox(tmp_path / "store.sqlite")) as inbox:
        inbox.hold(1, "1f", BODY)
        inbox.hold(0, "2f", BODY)
        (line,) = inbox.held(1)
    assert line.isascii()
    assert line.count("\n") == 1
    request = {
        "custom_id": "1f",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": BODY,
    }
    assert json.loads(line) == request


@pytest.mark.parametrize(
    ("text", "fault", "words"),
    [
        (b"\xff\xfe", "malformed", "not valid JSON"),
        (b"[" * 100_000, "malformed", "not valid JSON"),
        (b"[1]", "malformed", "no custom_id"),
        (line(custom_id=7), "malformed", "no custom_id"),
        (line(custom_id=""), "malformed", "no custom_id"),
        (line(response=None), "malformed", "no choices"),
        (
            line(response={"status_code": 200, "body": {"choices": []}}),
            "malformed",
            "no choices",
        ),
        (
            line(response={"status_code": 200, "body": {"choices": [1]}}),
            "malformed",
            "no choices",
        ),
        (line(response={"status_code": 500, "body": None}), "failed", "status 500"),
        (line(response={"body": ANSWER}), "failed", "status None"),
        (line(error={"error": {"message": "too long"}}), "failed", "too long"),
        (line(response=None, error="gone"), "failed", "gone"),
    ],
)
def test_every_other_line_says_why_it_is_none(
    text: bytes, fault: str, words: str
) -> None:
    found = read_result(text)
    assert (found.body, found.fault) == (None, fault)
    assert words in found.words


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
    ),
    max_leaves=10,
)


@settings(max_examples=25, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "custom_id": json_values,
            "response": json_values,
            "error": json_values,
        },
    )
)
def test_no_form_stops_the_reading(found: dict[str, object]) -> None:
    read = read_result(json.dumps(found).encode())
    assert (read.body is None) == (read.fault is not None)


def test_empty_lines_are_none_and_a_missing_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"\n" + line() + b"\r\n\n" + line())
    assert [found.id for found in read_results(path)] == ["a", "a"]
    with pytest.raises(UserError, match="cannot be read"):
        list(read_results(tmp_path / "none.jsonl"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def answers(*ids: str) -> list[ResultLine]:
    return [ResultLine(each, {"choices": [each]}) for each in ids]


def test_lines_are_counted_by_what_they_are_and_the_first_of_a_request_stays(
    store: Path,
) -> None:
    results = Inbox(store)
    faults = [ResultLine("", fault="malformed", words=f"m{i}") for i in range(5)]
    other = ResultLine("a", {"choices": ["other"]})
    taken = results.take(
        [*answers("a", "b"), other, *faults, ResultLine("c", fault="failed")]
    )
    counts = Counter(answered=2, duplicate=1, malformed=5, failed=1)
    assert taken == (counts, ["m0", "m1", "m2"])
    assert results.get("a") == {"choices": ["a"]}
    assert results.get("c") is None
    results.close()


def test_what_was_used_and_what_nobody_wants_is_gone(store: Path) -> None:
    results = Inbox(store)
    results.take(answers("used", "kept", "unasked"))
    assert results.ask("used")
    assert not results.ask("used")
    assert results.ask("kept")
    results.ask("never answered")
    results.keep(["kept"])
    assert results.clear() == Counter(used=1, kept=1, unasked=1)
    assert [results.get(each) for each in ("used", "unasked")] == [None, None]
    results.close()
    again = Inbox(store)
    assert again.get("kept") == {"choices": ["kept"]}
    # It comes once more, in an import of the same file: neither a duplicate nor unasked for.
    assert again.take(answers("kept"))[0] == Counter(answered=1)
    again.ask("kept")
    assert again.clear() == Counter(used=1, kept=0, unasked=0)
    again.close()


def test_a_round_that_breaks_off_changes_nothing_and_an_empty_file_goes(
    store: Path,
) -> None:
    results = Inbox(store)
    assert len(list(store.parent.iterdir())) > 0
    results.take(answers("a"))
    results.close()
    assert not list(store.parent.iterdir())


def test_a_file_of_something_else_is_said(store: Path) -> None:
    store.with_name("store-batch.sqlite").write_text("no database" * 100)
    with pytest.raises(StoreError, match=r"store-batch\.sqlite"):
        Inbox(store)
