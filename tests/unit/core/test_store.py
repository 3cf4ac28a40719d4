"""Completions and judgements by content key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import StoreError
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store, content_key
from refusal_checks.core.verdicts import Binary, Label

Write = Callable[[str, str], Path]

FULL = Completion("答案\n\x00\U0001f600", "length", 12, -0.25, "refusal")
VERDICT = Binary(Label.REFUSAL, "deflection", "it « declines »")

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)

WRITER = """
import sys
from pathlib import Path
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
with Store(Path(sys.argv[1])) as store:
    for number in range(100):
        store.add_completions({f"own-{sys.argv[2]}-{number}": Completion(sys.argv[2])})
        store.add_completions({f"shared-{number}": Completion(sys.argv[2])})
"""


def run_at_once(script: str, *arguments: list[str]) -> list[str]:
    """Run a script once for each list of arguments, all at once; their errors' last lines."""
    processes = [
        subprocess.Popen([sys.executable, "-c", script, *given], stderr=subprocess.PIPE, text=True)
        for given in arguments
    ]
    errors = [process.communicate()[1] for process in processes]
    return [line for error in errors for line in error.splitlines()[-1:]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "store.sqlite"


@pytest.mark.parametrize("completion", [FULL, Completion(""), Completion("a", mean_logprob=0.0)])
def test_a_completion_comes_back_as_it_was(path: Path, completion: Completion) -> None:
    with Store(path) as store:
        store.add_completions({"key": completion})
        assert store.completions(["key", "other"]) == {"key": completion}
    with Store(path) as again:
        assert again.completions(["key"]) == {"key": completion}


@pytest.mark.parametrize("judgement", [VERDICT, Binary(Label.COMPLIANCE)])
def test_a_judgement_comes_back_as_it_was(path: Path, judgement: Binary) -> None:
    with Store(path) as store:
        store.add_judgements({"key": judgement})
    with Store(path) as reopened:
        found = reopened.judgements(["key"])
    assert found == {"key": judgement}
    again = found["key"]
    assert isinstance(again, Binary)
    assert isinstance(again.label, Label)


def test_completions_and_judgements_do_not_meet(path: Path) -> None:
    with Store(path) as store:
        store.add_completions({"key": FULL})
        assert store.judgements(["key"]) == {}


def test_the_first_write_stays(path: Path) -> None:
    with Store(path) as store:
        for text in ("first", "second"):
            store.add_completions({"key": Completion(text)})
            store.add_judgements({"key": Binary(Label.REFUSAL, None, text)})
        assert store.completions(["key"])["key"].text == "first"
        assert store.judgements(["key"])["key"].rationale == "first"


def test_many_keys_are_found_at_once(path: Path) -> None:
    keys = [f"key{number}" for number in range(1201)]
    with Store(path) as store:
        for key in keys:
            store.add_completions({key: Completion(key)})
        found = store.completions(iter(keys))
        assert store.completions([]) == {}
    assert {key: answer.text for key, answer in found.items()} == {key: key for key in keys}


@settings(max_examples=20)
@given(st.lists(JSON_VALUES, max_size=4))
def test_content_keys_are_equal_for_equal_parts(parts: list[object]) -> None:
    assert content_key(*json.loads(json.dumps(parts))) == content_key(*parts)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["a", "b"], ["ab"]),
        (["a", "b"], ["b", "a"]),
        ([["a", "b"]], ["a", "b"]),
        ([["a"], "b"], ["a", ["b"]]),
        (["a", ""], ["a"]),
        (['a","b'], ["a", "b"]),
        ([1], ["1"]),
        ([None], ["null"]),
        ([True], ["True"]),
        ([{"a": 1}], [{"a": 2}]),
        ([""], []),
        (["é"], ["e\u0301"]),
    ],
)
def test_content_keys_tell_parts_apart(first: list[object], second: list[object]) -> None:
    assert content_key(*first) != content_key(*second)


def test_keys_stay_what_earlier_versions_stored_under() -> None:
    parts = ["model", {"b": 0.7, "a": None, "c": ["文", 1, True]}, [("user", 'Say "no"\n\ud800')]]
    assert content_key(*parts) == "afd6bb4e2ae8f5ff4b60dd3dfe4f0d0f"


def test_the_order_of_a_mapping_and_the_kind_of_a_sequence_change_no_key() -> None:
    assert content_key({"a": 1, "b": (2, 3)}) == content_key({"b": [2, 3], "a": 1})


def test_a_key_is_short_hexadecimal_even_for_text_that_cannot_be_encoded() -> None:
    key = content_key("\ud800", "文")
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")


@pytest.mark.parametrize("hash_seed", ["0", "7"])
def test_another_process_makes_the_same_keys(hash_seed: str) -> None:
    parts = ["model", {"b": 0.7, "a": None, "c": ["文", 1]}, [["user", "hello"]]]
    script = (
        "import json, sys; from refusal_checks.core.store import content_key;"
        "print(content_key(*json.loads(sys.argv[1])))"
    )
    made = subprocess.run(
        [sys.executable, "-c", script, json.dumps(parts)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == content_key(*parts)


def test_two_processes_write_to_a_store_at_once(path: Path) -> None:
    Store(path).__exit__(None, None, None)
    assert run_at_once(WRITER, [str(path), "a"], [str(path), "b"]) == []
    with Store(path) as store:
        for name in "ab":
            assert len(store.completions(f"own-{name}-{number}" for number in range(100))) == 100
        shared = store.completions(f"shared-{number}" for number in range(100))
    assert len(shared) == 100
    assert {answer.text for answer in shared.values()} <= {"a", "b"}


def test_what_no_run_needed_since_a_time_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with Store(path) as store:
        monkeypatch.setattr(time, "time", lambda: now - 1000)
        store.add_completions(dict.fromkeys(("old", "old, read", "kept"), FULL))
        store.add_judgements(dict.fromkeys(("old verdict", "verdict, read"), VERDICT))
        monkeypatch.setattr(time, "time", lambda: now)
        store.add_completions({"new": FULL})
        store.use(["old, read", "verdict, read", "never stored"])
        found = store.unused(now - 500, ["kept"])
        assert (found.completions, found.judgements) == (1, 1)
        assert 0 < found.bytes < store.contents().bytes
        store.drop(now - 500, ["kept"])
        assert store.completions(["old", "old, read", "kept", "new"]).keys() == {
            "old, read",
            "kept",
            "new",
        }
        assert store.judged(["old verdict", "verdict, read"]) == {"verdict, read"}
        assert store.unused(now - 500, ["kept"]).completions == 0


def test_dropping_gives_the_space_back(path: Path) -> None:
    with Store(path) as store:
        store.add_completions({f"key{i}": Completion(f"{i} " * 400) for i in range(2000)})
        before = store.size()
        store.drop(time.time() + 10)
        assert store.size() < before / 20


def test_nobody_can_need_again_what_is_being_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    choose = Store._choose

    def need_meanwhile(own: Store, *args: Any) -> None:
        choose(own, *args)
        other._db.execute("PRAGMA busy_timeout = 50")
        with pytest.raises(StoreError) as caught:
            other.use(["key"])
        refused.append(str(caught.value))

    with Store(path) as store, Store(path) as other:
        store.add_completions({"key": FULL})
        monkeypatch.setattr(Store, "_choose", need_meanwhile)
        store.drop(time.time() + 10)
    assert "locked" in refused[0]


def test_an_answer_that_a_server_broke_off_is_not_there_and_gives_way(path: Path) -> None:
    with Store(path) as store:
        store.add_completions({"a": Completion("cut", "abort"), "b": Completion("whole")})
        assert store.completions(["a", "b"]).keys() == {"b"}
        store.add_completions({"a": Completion("new"), "b": Completion("other")})
        assert store.completions(["a", "b"]) == {"a": Completion("new"), "b": Completion("whole")}
