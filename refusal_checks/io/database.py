"""A SQLite file whose errors name the remedy."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import StoreError
from refusal_checks.io.files import make_private_folder

_RERUN = "run the same command again; it continues where this one stopped"


_REMEDIES = {
    "SQLITE_FULL": f"free some space on its disk, then {_RERUN}",
    "SQLITE_IOERR": "check the disk, quotas and limits on file size, one of which prevents reading "
    f"or writing it; then {_RERUN}",
    "SQLITE_CORRUPT": "the file is damaged; move it away, and the next run asks again for what it "
    "held",
    "SQLITE_BUSY": "another process has locked it for a minute; wait for that process to end",
    "GONE": "put it back, then run the same command again, which otherwise asks again for "
    "everything",
    "SQLITE_READONLY": "change its permissions",
    "SQLITE_CANTOPEN": "if it is a folder, name a file; else create its folder, or change the "
    "folder's permissions",
}


Execute = Callable[..., Any]


class Database:
    """A SQLite file with a fixed set of tables.

    Args:
        version: version of the tables' format, kept as ``user_version``; files with another
            version are refused.
        tables: table names that identify a file of any version as ours.
        create: function that creates the tables.
    """

    def __init__(
        self,
        path: Path,
        version: int,
        tables: Sequence[str],
        create: Callable[[Execute], None],
    ) -> None:
        self.path = path
        self._version = version
        self._tables = set(tables)
        self._create = create
        with self.faults():
            make_private_folder(path.parent)
            if not path.exists():
                path.touch(0o600)  # SQLite gives the files beside it the same mode
            # One thread opens it and others use it, never two at once.
            self._db = sqlite3.connect(
                path, timeout=60, isolation_level=None, check_same_thread=False
            )
        self.execute: Execute = self._db.execute
        self.executemany: Execute = self._db.executemany
        self.close = self._db.close
        self._identity: tuple[int, int] | None = None
        try:
            with self.faults():
                self._prepare()
        except StoreError:
            self.close()
            raise
        self._identity = self._find_file()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything in the block, or nothing if it raises; blocks may be nested."""
        if self._db.in_transaction:
            yield
            return
        if self._identity and self._find_file() != self._identity:
            # SQLite keeps writing to a file that has lost its name.
            raise self.error("it was removed or replaced while it was in use", "GONE")
        self.execute("BEGIN IMMEDIATE")
        with self._db:  # commits, or rolls back on an exception
            yield

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn SQLite's and the system's errors into one that names the file and the remedy."""
        try:
            yield
        except OSError as fault:
            raise self.error(fault.strerror or str(fault), "SQLITE_CANTOPEN") from fault
        except sqlite3.Error as fault:
            # Without a code it is Python's own, which may quote what a row holds.
            code = getattr(fault, "sqlite_errorname", "")
            if code:
                raise self.error(str(fault), code) from fault
            raise self.error("some of it cannot be read") from None

    def error(self, problem: str, code: str = "SQLITE_CORRUPT") -> StoreError:
        """Name the file, the problem, and the remedy for SQLite's error code."""
        remedies = [
            remedy for name, remedy in _REMEDIES.items() if code.startswith(name)
        ]
        other = "name another one with --store FILE"
        if remedies:
            other = f"or {other}"
        message = "; ".join([problem, *remedies, other])
        return StoreError(f"the store {self.path}: {message}")

    def _find_file(self) -> tuple[int, int] | None:
        """Device and number of the file that its path names; None if there is none."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _prepare(self) -> None:
        version, names = self._state()
        if names and not names & self._tables:
            tables = ", ".join(sorted(names))
            raise self.error(
                f"a database of another program, with the tables {tables}", code=""
            )
        is_new = not names and version == 0
        if version != self._version and not is_new:
            raise self.error(
                f"it has format {version}, but this version of refusal-checks reads format "
                f"{self._version}; move it away, and the next run asks again for what it holds",
                code="",
            )
        # A file system that cannot hold a write-ahead log keeps SQLite's rollback journal instead.
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=NORMAL")
        # With SQLite's default of 1000 pages, writing 125,000 answers takes 60% longer.
        self.execute("PRAGMA wal_autocheckpoint=8000")
        # The check for damage takes a second or two for 2 GiB.
        is_small = self.path.is_file() and self.path.stat().st_size <= 2 * 2**30
        if is_small and self.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self.error("database disk image is malformed")
        if is_new:
            with self.transaction():
                self._create(self.execute)
                self.execute(f"PRAGMA user_version = {self._version}")

    def _state(self) -> tuple[int, set[str]]:
        rows = self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return self.execute("PRAGMA user_version").fetchone()[0], {
            name for (name,) in rows
        }
