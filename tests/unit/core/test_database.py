"""The store's file: what is wrong with it is found early, and said with what to do."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from refusal_checks.core.errors import StoreError
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Binary, Label

Write = Callable[[str, str], Path]

FULL = Completion("答案\n\x00\U0001f600", "length", 12, -0.25, "refusal")
VERDICT = Binary(Label.REFUSAL, "deflection", "it « declines »")

OPENER = """
import sys, time
from pathlib import Path
from refusal_checks.core.store import Store
for number in range(40):
    time.sleep(max(0, float(sys.argv[2]) + number / 50 - time.time()))
    with Store(Path(sys.argv[1]) / f"{number}.sqlite"):
        pass
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


def test_several_processes_create_a_store_at_once(tmp_path: Path) -> None:
    start = str(time.time() + 1.5)
    assert run_at_once(OPENER, *[[str(tmp_path), start]] * 3) == []


def assert_names_the_remedy(fault: StoreError, path: Path) -> None:
    assert str(path) in str(fault)
    assert "--store" in str(fault)


def test_a_file_that_is_no_database_is_named(write: Write) -> None:
    path = write("notes.txt", "no database, only words, and enough of them to fill a header " * 9)
    with pytest.raises(StoreError, match="not a database") as caught:
        Store(path)
    assert_names_the_remedy(caught.value, path)
    assert path.read_text().startswith("no database")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE completions (other TEXT)", "no such column: key"),
        ("CREATE TABLE bookmarks (url TEXT)", "a database of another program, .* bookmarks"),
        ("PRAGMA user_version = 99", "later version .*format 99; this one reads up to 1"),
    ],
)
def test_a_database_that_is_no_store_of_ours_is_named(
    path: Path, statement: str, said: str
) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=said) as caught:
        Store(path)
    assert_names_the_remedy(caught.value, path)
    with sqlite3.connect(path) as database:
        left = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    database.close()
    assert "uses" not in left
    assert len(path.read_bytes()) == len(before)


OLD_FORMAT = """
CREATE TABLE completions (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE judgements (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO completions VALUES ('a', '{"text": "an answer"}');
INSERT INTO judgements VALUES ('b', '{"label": "refusal", "kind": "labelled"}');
"""


def test_what_a_file_of_the_first_format_holds_is_taken_over(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.executescript(OLD_FORMAT)
    database.close()
    for _ in range(2):
        with Store(path) as store:
            assert store.completions(["a"]) == {"a": Completion("an answer")}
            assert store.judgements(["b"]) == {"b": Binary(Label.REFUSAL)}
            assert store.unused(time.time() - 60).completions == 0


def filled(path: Path, count: int = 300) -> Path:
    """A store of some pages, closed."""
    with Store(path) as store:
        store.add_completions({f"key{i}": Completion(f"{i} " * 400) for i in range(count)})
    return path


@pytest.mark.parametrize("bytes_left", [50, 5000, 100_000])
def test_a_truncated_file_is_found_when_it_is_opened(path: Path, bytes_left: int) -> None:
    with filled(path).open("r+b") as file:
        file.truncate(bytes_left)
    with pytest.raises(StoreError, match="move") as caught:
        Store(path)
    assert_names_the_remedy(caught.value, path)
    assert path.stat().st_size == bytes_left


def test_damage_in_the_middle_is_found_when_it_is_opened(path: Path) -> None:
    with filled(path).open("r+b") as file:
        file.seek(20 * 4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(StoreError, match="damaged; move it away"):
        Store(path)


def test_damage_while_it_is_open_is_named(path: Path) -> None:
    with Store(filled(path, 3000)) as store:
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))
        with pytest.raises(StoreError, match="damaged; move it away"):
            store.completions(f"key{i}" for i in range(3000))


def test_an_entry_that_means_nothing_is_named(path: Path) -> None:
    with Store(path) as store:
        store.add_judgements({"key": VERDICT})
    with sqlite3.connect(path) as database:
        database.execute('UPDATE judgements SET value = \'{"kind": "guessed"}\'')
    database.close()
    with Store(path) as store, pytest.raises(StoreError, match="judgements cannot be parsed"):
        store.judgements(["key"])


LIMITED = """
import resource, sys
from pathlib import Path
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
with Store(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    for number in range(1000):
        store.add_completions({f"key{number}": Completion("word " * 200)})
        print(number, flush=True)
"""


def test_a_file_that_may_not_grow_keeps_what_was_written(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=False
    )
    stored = len(done.stdout.splitlines())
    last = done.stderr.splitlines()[-1]
    assert 0 < stored < 1000
    assert str(path) in last
    assert "limit on file sizes" in last
    assert "continues where this one stopped" in last
    with Store(path) as store:
        assert len(store.completions(f"key{number}" for number in range(1000))) == stored
        store.add_completions({"further": FULL})


def test_a_full_disk_is_named(path: Path) -> None:
    with Store(path) as store:
        store._db.execute("PRAGMA max_page_count = 20")
        with pytest.raises(StoreError, match="is full; free some space on its disk") as caught:
            store.add_completions({f"key{i}": Completion("word " * 500) for i in range(50)})
        assert_names_the_remedy(caught.value, path)
        assert store.contents().completions == 0
        store.add_completions({"key": FULL})
    with Store(path) as again:
        assert again.completions(["key"]) == {"key": FULL}


def test_a_folder_that_cannot_be_made_is_named(write: Write) -> None:
    path = write("file", "") / "store.sqlite"
    with pytest.raises(StoreError) as caught:
        Store(path)
    assert_names_the_remedy(caught.value, path)


def test_a_path_that_leads_in_circles_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "loop" / "store.sqlite")
    assert_names_the_remedy(caught.value, tmp_path / "loop" / "store.sqlite")


def test_a_folder_in_the_files_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        Store(tmp_path)
    assert_names_the_remedy(caught.value, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "store.sqlite")
    assert_names_the_remedy(caught.value, tmp_path / "store.sqlite")
