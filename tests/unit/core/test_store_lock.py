"""One run at a time uses a store; another waits, and says for whom."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refusal_checks.core.errors import StoreError
from refusal_checks.io import store_lock
from refusal_checks.io.store_lock import StoreLock

HOLDER = """
import sys
from pathlib import Path
from refusal_checks.io.store_lock import StoreLock
lock = StoreLock(Path(sys.argv[1]))
lock.take(Path("its/folder"), print, lambda: False)
print("taken", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(store_lock, "LOOK", 0.01)
    monkeypatch.setattr(store_lock, "LONGEST", 60.0)
    return tmp_path / "new" / "store.sqlite"


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the store until it is killed, or told to go on."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == b"taken\n"
            yield other
        finally:
            other.kill()


def taken(path: Path, said: list[str], *, cancelled: bool = False) -> StoreLock:
    lock = StoreLock(path)
    lock.take(Path("own/folder"), said.append, lambda: cancelled)
    return lock


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_run_waits_until_the_other_has_ended(path: Path, is_killed: bool) -> None:
    with held(path) as other:

        def say(text: str) -> None:
            said.append(text)
            if is_killed:
                other.kill()
            else:
                other.communicate(b"go on\n", timeout=60)

        said: list[str] = []
        lock = StoreLock(path)
        lock.take(Path("own/folder"), say, lambda: False)
    who = f"process {other.pid} on {platform.node()}, since "
    assert said[0].startswith(f"the store {path} is in use by {who}")
    assert said[0].endswith(
        ", run folder its/folder: this run waits for it, up to 1 minutes"
    )
    holder = path.with_name("store.sqlite.holder").read_text()
    assert holder.startswith(f"process {os.getpid()} on ")
    assert holder.endswith(", run folder own/folder\n")
    lock.release()


def test_a_run_does_not_wait_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lock, "LONGEST", 0.0)
    with held(path) as other:
        with pytest.raises(StoreError, match="name another store with --store") as end:
            taken(path, [])
        assert f": process {other.pid} on " in str(end.value)


def test_a_run_that_waits_can_be_stopped(path: Path) -> None:
    with held(path), pytest.raises(KeyboardInterrupt):
        taken(path, [], cancelled=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StoreError, match=r"(File exists|Not a directory); .*--store FILE"
    ):
        taken(tmp_path / "file" / "store.sqlite", [])
