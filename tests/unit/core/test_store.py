"""Completions and judgements by content key."""

import json
import sqlite3
import subprocess
import sys
import time
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from refusal_checks.core.errors import StoreError
from refusal_checks.core.judgements import Binary, Label
from refusal_checks.core.records import Completion
from refusal_checks.io.store import TABLES, Store, content_key
from tests.unit.conftest import Write

FULL = Completion("答案\n\x00\U0001f600", "length", 12, -0.25, "refusal")
VERDICT = Binary(Label.REFUSAL, "deflection", "it « declines »")


def change(path: Path, script: str) -> None:
    """Run SQL on a file, as another program would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "store.sqlite"


def test_what_is_stored_comes_back_as_it_was_and_the_first_write_stays(
    path: Path,
) -> None:
    with Store(path) as store:
        store.add_completions({"key": FULL})
        assert store.judgements(["key"]) == {}
        store.add_judgements({"key": VERDICT})
        store.add_completions({"key": Completion("second")})
        store.add_judgements({"key": Binary(Label.REFUSAL, None, "second")})
    with Store(path) as again:
        assert again.completions(["key", "other"]) == {"key": FULL}
        assert again.judgements(["key", "other"]) == {"key": VERDICT}


WRITER = """
import sys
from pathlib import Path
from refusal_checks.core.records import Completion
from refusal_checks.io.store import Store
with Store(Path(sys.argv[1])) as store:
    for number in range(100):
        for name in (sys.argv[2], "shared"):
            store.add_completions({f"{name}-{number}": Completion(sys.argv[2])})
"""


def test_two_processes_write_to_a_store_at_once(path: Path) -> None:
    Store(path).close()
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    with Store(path) as store:
        for name in ("a", "b", "shared"):
            answers = store.completions(f"{name}-{number}" for number in range(100))
            assert len(answers) == 100
            assert {answer.text for answer in answers.values()} <= {"a", "b"}


DIFFERENT = r"""
["a","b"] ["ab"] ["b","a"] [["a","b"]] [["a"],"b"] ["a",["b"]] ["a",""] ["a"] ["a\",\"b"]
[1] ["1"] [null] ["null"] [true] ["True"] [{"a":1}] [{"a":2}] [""] [] ["é"] ["e\u0301"]
"""


def test_content_keys_tell_parts_apart() -> None:
    parts = list(map(json.loads, DIFFERENT.split()))
    assert len({content_key(*each) for each in parts}) == len(parts)


def test_keys_stay_what_earlier_versions_stored_under() -> None:
    parts = [
        "model",
        {"b": 0.7, "a": None, "c": ["文", 1, True]},
        [("user", 'Say "no"\n\ud800')],
    ]
    assert content_key(*parts) == "afd6bb4e2ae8f5ff4b60dd3dfe4f0d0f"
    assert content_key({"a": 1, "b": (2, 3)}) == content_key({"b": [2, 3], "a": 1})


def test_a_store_that_is_removed_while_it_is_in_use_is_noticed(path: Path) -> None:
    with Store(path) as store:
        store.add_judgements({"a": VERDICT})
        path.rename(path.with_name("aside"))
        with pytest.raises(StoreError, match=r"removed or replaced.*put it back"):
            store.add_judgements({"b": VERDICT})
        path.with_name("aside").replace(path)
        store.add_judgements({"b": VERDICT})


def test_an_answer_that_a_server_broke_off_is_not_there_and_gives_way(
    path: Path,
) -> None:
    with Store(path) as store:
        store.add_completions(
            {"a": Completion("cut", "abort"), "b": Completion("whole")}
        )
        assert store.completions(["a", "b"]).keys() == {"b"}
        store.add_completions({"a": Completion("new"), "b": Completion("other")})
        assert store.completions(["a", "b"]) == {
            "a": Completion("new"),
            "b": Completion("whole"),
        }


def refused(path: Path, match: str = ".") -> None:
    """A file cannot be a store, and the error names it and the remedy."""
    with pytest.raises(StoreError, match=match) as caught:
        Store(path)
    assert str(path) in str(caught.value)
    assert "--store" in str(caught.value)


def test_a_file_that_is_no_database_is_named(write: Write) -> None:
    path = write("notes.txt", "only words, and enough of them to fill a header " * 9)
    refused(path, "not a database; name another one with --store FILE$")
    assert path.read_text().startswith("only words")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "CREATE TABLE completions (other TEXT)",
            "format 0, .* reads format 7; move it away",
        ),
        (
            "CREATE TABLE bookmarks (url TEXT)",
            "a database of another program, .* bookmarks",
        ),
        ("PRAGMA user_version = 99", "it has format 99"),
    ],
)
def test_a_database_that_is_no_store_of_ours_is_named(
    path: Path, statement: str, said: str
) -> None:
    change(path, statement)
    before = path.read_bytes()
    refused(path, said)
    assert path.read_bytes() == before


def test_a_place_where_no_file_can_be_is_named(write: Write) -> None:
    refused(write("file", "") / "store.sqlite")


def test_it_knows_when_answers_were_stored(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(path) as store:
        for moment in (1000, 3000, 2000):
            monkeypatch.setattr(time, "time", lambda now=moment: now)
            store.add_completions({f"at {moment}": FULL})
        assert store.time_span(["at 3000", "at 2000", "never"]) == (2000, 3000)
        assert store.time_span(["never"]) is None


@pytest.mark.parametrize("bytes_left", [50, 100_000, None])
def test_a_damaged_file_is_found_when_it_is_opened(
    path: Path, bytes_left: int | None
) -> None:
    with Store(path) as store:
        store.add_completions(
            {f"key{i}": Completion(f"{i} " * 400) for i in range(300)}
        )
    with path.open("r+b") as file:
        if bytes_left is None:
            file.seek(20 * 4096)
            file.write(b"\xff" * 8192)
        else:
            file.truncate(bytes_left)
    refused(path, "move")
    assert bytes_left in (None, path.stat().st_size)


EDITS = {
    "another verdict": "UPDATE judgements SET value = replace(value, 'refusal', 'compliance')",
    "no UTF-8": "UPDATE judgements SET value = CAST(X'6f6c6420ff736563726574' AS TEXT)",
    "moved": "DELETE FROM judgements WHERE key = 'one'; UPDATE judgements SET key = 'one' WHERE "
    "key = 'two'; INSERT INTO judgements "
    "SELECT 'two', value, digest, written FROM judgements WHERE key = 'three'",
    "no digest": "UPDATE judgements SET digest = NULL",
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_row_that_was_changed_is_not_used_and_written_anew(
    path: Path, edit: str
) -> None:
    other = Binary(Label.COMPLIANCE, "none", "it helps")
    with Store(path) as store:
        store.add_judgements({"one": VERDICT, "two": other, "three": VERDICT})
    change(path, EDITS[edit])
    with Store(path) as store:
        assert store.judged_keys(["one", "two", "three"]) <= {"three"}
        assert store.changed >= 2
        store.add_judgements({"one": VERDICT, "two": other})
        assert store.judgements(["one", "two"]) == {"one": VERDICT, "two": other}


def test_an_entry_that_means_nothing_is_named_and_not_quoted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other: TypeAdapter[Any] = TypeAdapter(dict[str, str])
    monkeypatch.setitem(TABLES, "judgements", other)
    with Store(path) as store:
        store.add_judgements({"key": {"kind": "guessed", "rationale": "secret"}})  # type: ignore[dict-item]
        monkeypatch.undo()
        with pytest.raises(StoreError, match="judgements cannot be parsed") as caught:
            store.judgements(["key"])
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_full_disk_is_named(path: Path) -> None:
    with Store(path) as store:
        store._db.execute("PRAGMA max_page_count = 20")
        with pytest.raises(
            StoreError, match=r"is full; free some space on its disk.* --store"
        ):
            store.add_completions(
                {f"key{i}": Completion("word " * 500) for i in range(50)}
            )
        assert store.count_completions() == 0
        store.add_completions({"key": FULL})
    with Store(path) as again:
        assert again.completions(["key"]) == {"key": FULL}
