"""SQLite files that several processes share, with errors that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_random

from refusal_checks.core.errors import StoreError

MEMORY = Path(":memory:")
"""A database without a file; it is gone when it is closed."""

_CHECKED = 2 * 2**30
"""Most bytes of a file that is checked for damage when it is opened; this takes a second or two."""

_AUTOCHECKPOINT = 8000
"""Pages of the write-ahead log before it is copied into the file; with SQLite's default of 1000,
writing 125,000 answers takes 60% longer."""

_RERUN = "run the same command again; it continues where this one stopped"

_REMEDIES = {
    "SQLITE_FULL": f"free some space on its disk, then {_RERUN}",
    "SQLITE_IOERR": "the disk, a quota or a limit on file sizes prevents reading or writing it; "
    f"fix this, then {_RERUN}",
    "SQLITE_CORRUPT": "the file is damaged; move it away, and the next run collects anew what it "
    "held",
    "SQLITE_NOTADB": "move that file away",
    "SQLITE_BUSY": "another process has locked it for a minute; wait for that process to end",
    "SQLITE_READONLY": "change its permissions",
    "SQLITE_CANTOPEN": "create its folder, or change the folder's permissions",
}

# Two processes that turn a new file into a WAL database at once do not wait for each other.
_when_unlocked = Retrying(
    retry=retry_if_exception_message(match=".*locked"),
    stop=stop_after_delay(30),
    wait=wait_random(0.01, 0.2),
    reraise=True,
)

Execute = Callable[..., Any]


class Database:
    """An SQLite file with known tables.

    Args:
        version: of the tables' format, kept as ``user_version``; an older file is upgraded.
        tables: names by which a file of any version is recognised as ours.
        create: creates the tables of this version, given the names of those that an older file has.

    Raises:
        StoreError: the file cannot be opened, is damaged, has a later version, or is not ours.
    """

    def __init__(
        self,
        path: Path,
        version: int,
        tables: Sequence[str],
        create: Callable[[Execute, set[str]], None],
    ) -> None:
        self.path = path
        self._latest, self._tables, self._create = version, tables, create
        with self.faults():
            path.parent.mkdir(parents=True, exist_ok=True)
            # One thread opens it and others use it, never two at once.
            self._db = sqlite3.connect(
                path, timeout=60, isolation_level=None, check_same_thread=False
            )
        self.execute: Execute = self._db.execute
        self.executemany: Execute = self._db.executemany
        try:
            with self.faults():
                _when_unlocked(self._prepare)
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; it cannot be used afterwards."""
        self._db.close()

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open."""
        return self._db.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything inside, or nothing if an exception leaves the block."""
        self.execute("BEGIN IMMEDIATE")
        with self._db:  # commits, or rolls back on an exception
            yield

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn errors of SQLite and of the system into one that names the file and the remedy.

        Raises:
            StoreError: in place of the error.
        """
        try:
            yield
        except (sqlite3.Error, OSError) as fault:
            raise self.error(str(fault), getattr(fault, "sqlite_errorname", "")) from fault

    def error(self, problem: str, code: str = "SQLITE_CORRUPT") -> StoreError:
        """An error that names the file, the problem and the remedy.

        Args:
            code: SQLite's name for such an error; it decides the remedy.
        """
        remedies = [remedy for name, remedy in _REMEDIES.items() if code.startswith(name)]
        message = "; ".join([problem, *remedies, "or name another one with --store FILE"])
        return StoreError(f"the store {self.path}: {message}")

    def size(self) -> int:
        """Bytes of the file and of its write-ahead log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return sum(file.stat().st_size for file in (self.path, log) if file.is_file())

    def _prepare(self) -> None:
        self._require_ours()
        # A file system that cannot hold a write-ahead log keeps SQLite's rollback journal instead.
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=NORMAL")
        self.execute(f"PRAGMA wal_autocheckpoint={_AUTOCHECKPOINT}")
        is_small = self.path.is_file() and self.path.stat().st_size <= _CHECKED
        if is_small and self.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self.error("database disk image is malformed")
        if self._version() < self._latest:
            with self.transaction():
                if self._version() < self._latest:  # another process may have been faster
                    self._create(self.execute, self._names() & set(self._tables))
                    self.execute(f"PRAGMA user_version = {self._latest}")

    def _version(self) -> int:
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def _names(self) -> set[str]:
        rows = self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in rows}

    def _require_ours(self) -> None:
        version, names = self._version(), self._names()
        if version > self._latest:
            raise self.error(
                f"written by a later version of refusal-checks (format {version}; this one reads "
                f"up to {self._latest}); update refusal-checks",
                code="",
            )
        if names and not names & set(self._tables):
            tables = ", ".join(sorted(names))
            raise self.error(f"a database of another program, with the tables {tables}", code="")
