"""The store's file: SQLite, for several processes at once, with errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_random

from refusal_checks.core import database
from refusal_checks.core.errors import StoreError

MEMORY = Path(":memory:")
"""No file at all: what is written is gone at the end."""

_CHECKED = 2 * 2**30
"""Bytes of a file that is read whole when it is opened, to find damage early: a second or two."""

_AUTOCHECKPOINT = 8000
"""Pages of a write-ahead log before it is carried over; with SQLite's own 1000 writing 125,000
answers takes 60% longer, for the disk."""

_ROOM = "the same command goes on where this one ended"

_REMEDIES = {
    "SQLITE_FULL": f"free some space on its disk, then {_ROOM}",
    "SQLITE_IOERR": "the disk, a quota or a limit on file sizes does not let it be read or "
    f"written; see to that, then {_ROOM}",
    "SQLITE_CORRUPT": "the file is damaged; move it away, and what it held is asked for again",
    "SQLITE_NOTADB": "move that file away",
    "SQLITE_BUSY": "another process has held it for a minute; wait for it to end",
    "SQLITE_READONLY": "change its permissions",
    "SQLITE_CANTOPEN": "create its folder, or change the permissions there",
}

# Making a new file a WAL database fails at once where another process does so too.
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
        format: of the tables, kept as the file's ``user_version``; an older file is brought up.
        tables: those that every file of ours has, of whatever format.
        create: makes the tables of this format, out of those named tables that an older file has.

    Attributes:
        warning: what the user must know of the file's place; empty on a local disk.

    Raises:
        StoreError: the file cannot be opened, is damaged, of a later format, or none of ours.
    """

    def __init__(
        self,
        path: Path,
        format: int,
        tables: Sequence[str],
        create: Callable[[Execute, set[str]], None],
    ) -> None:
        self.path = path
        self._format, self._tables, self._make = format, tables, create
        kind = "" if path == MEMORY else database.kind(path)
        self._network = database.is_network(kind)
        self.warning = ""
        if self._network:
            self.warning = (
                f"the store {path} is on a network file system ({kind}): writing is slow there, "
                "and runs on several machines may spoil it; name a local file with --store FILE"
            )
        with self.faults():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Opened by the main thread and used by the evaluation's, never by both at once.
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
        """Close the file; nothing can be read or written after."""
        self._db.close()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._db.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside, or none of it."""
        self.execute("BEGIN IMMEDIATE")
        with self._db:  # commits, or rolls back what an exception broke off
            yield

    @contextmanager
    def faults(self) -> Iterator[None]:
        """What goes wrong with the file inside, as an error that names it and the remedy.

        Raises:
            StoreError: SQLite or the system cannot do what is asked.
        """
        try:
            yield
        except (sqlite3.Error, OSError) as fault:
            raise self.error(str(fault), getattr(fault, "sqlite_errorname", "")) from fault

    def error(self, what: str, name: str = "SQLITE_CORRUPT") -> StoreError:
        """What is wrong with the file, and what to do.

        Args:
            name: SQLite's name for such a fault.
        """
        remedies = [remedy for kind, remedy in _REMEDIES.items() if name.startswith(kind)]
        said = "; ".join([what, *remedies])
        return StoreError(f"the store {self.path}: {said}; or name another one with --store FILE")

    def size(self) -> int:
        """Bytes of the file and of what is still to be carried over into it."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return sum(file.stat().st_size for file in (self.path, log) if file.is_file())

    def _prepare(self) -> None:
        self._require_ours()
        # A write-ahead log needs memory that all its users share, so they must be on one machine.
        self.execute(f"PRAGMA journal_mode={'DELETE' if self._network else 'WAL'}")
        self.execute("PRAGMA synchronous=NORMAL")
        self.execute(f"PRAGMA wal_autocheckpoint={_AUTOCHECKPOINT}")
        if self.path.is_file() and self.path.stat().st_size <= _CHECKED:
            found = self.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise self.error("database disk image is malformed")
        if self._version() < self._format:
            with self.transaction():
                if self._version() < self._format:  # another process may have been faster
                    self._make(self.execute, self._names() & set(self._tables))
                    self.execute(f"PRAGMA user_version = {self._format}")

    def _version(self) -> int:
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def _names(self) -> set[str]:
        found: Iterable[tuple[str]] = self.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
        return {name for (name,) in found}

    def _require_ours(self) -> None:
        version, names = self._version(), self._names()
        if version > self._format:
            raise StoreError(
                f"the store {self.path}: written by a later version of refusal-checks (format "
                f"{version}; this one reads up to {self._format}); update refusal-checks, or name "
                "another one with --store FILE"
            )
        if names and not names & set(self._tables):
            raise StoreError(
                f"the store {self.path}: a database of something else, with the tables "
                f"{', '.join(sorted(names))}; name another file with --store FILE"
            )


_KINDS = """
    9p afpfs afs beegfs ceph cifs cvmfs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs
    panfs pvfs2 smb2 smb3 smbfs webdav wekafs

    ceph-fuse curlftpfs davfs2 gcsfuse goofys juicefs mountpoint-s3 rclone s3fs seaweedfs sshfs
"""

NETWORK = frozenset(_KINDS.split())
"""Types of file systems that several machines may share; those that a program serves have ``fuse.``
before their name."""


def is_network(kind: str) -> bool:
    """Whether file systems of a type are shared between machines."""
    return kind.lower().removeprefix("fuse.") in NETWORK


def kind(path: Path) -> str:
    """The type of the file system that a path, there already or not, lies on; empty if unknown."""
    import psutil  # collection need not import it

    mounts = ((part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True))
    return nearest(Path(os.path.realpath(path)), mounts)  # resolve() refuses loops


def nearest(path: PurePath, mounts: Iterable[tuple[str, str]]) -> str:
    """The type of the innermost mount around a path; of two on one point, the later.

    Args:
        mounts: mount point and type, in the order of mounting.
    """
    around = [(PurePath(point), type) for point, type in mounts if path.is_relative_to(point)]
    innermost = max((len(point.parts) for point, _ in around), default=0)
    return next((type for point, type in reversed(around) if len(point.parts) == innermost), "")
