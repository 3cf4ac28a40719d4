# ruff: noqa: S608 (the names of tables and columns are this module's own)
"""Completions and judgements by content key, in one SQLite file, so that a rerun repeats nothing.

Once a call that writes returns, a crash of the process loses nothing; a power failure loses the
last moments at most. Several processes may use one file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from refusal_checks.core.database import Database, Execute
from refusal_checks.core.finish_reasons import ABORTED
from refusal_checks.core.records import Completion
from refusal_checks.core.verdicts import Valid

Value = TypeVar("Value")
Table = Literal["completions", "judgements"]

FORMAT = 1
"""Version of the tables; raise it when their meaning changes."""

TABLES: tuple[Table, ...] = ("completions", "judgements")
_COMPLETION = TypeAdapter(Completion)
_JUDGEMENT: TypeAdapter[Valid] = TypeAdapter(Annotated[Valid, Field(discriminator="kind")])

_WORDS = ", ".join(f"'{word}'" for word in sorted(ABORTED))
_KEEP = (
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value "
    f"WHERE json_extract(value, '$.finish_reason') IN ({_WORDS})"
)
"""What is stored stays, but for an answer that a server broke off."""

_CHUNK = 500  # SQLite's oldest limit on variables in a statement is 999


@dataclass(frozen=True)
class Contents:
    """How much a store, or a part of it, holds.

    Attributes:
        bytes: size of the values, without keys and SQLite's own pages.
    """

    completions: int
    judgements: int
    bytes: int


class Store:
    """Completions and judgements by content key; closes with its ``with`` block.

    Only answers and verdicts are stored, never a failure, so that a rerun tries failures again.

    Raises:
        StoreError: the file cannot be opened, read or written, or is not a store of this version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = Database(path, FORMAT, TABLES, _create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        self._db.close()

    def completions(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The stored completions among the keys; those that a server broke off are not there."""
        found = self._read("completions", keys, _COMPLETION.validate_json)
        return {key: each for key, each in found.items() if each.finish_reason not in ABORTED}

    def judgements(self, keys: Iterable[str]) -> dict[str, Valid]:
        """The stored judgements among the keys."""
        return self._read("judgements", keys, _JUDGEMENT.validate_json)

    def judged(self, keys: Iterable[str]) -> set[str]:
        """The keys among these that have a judgement."""
        with self._db.faults():
            return {key for (key,) in self._select("judgements", "key", keys)}

    def add_completions(self, completions: Mapping[str, Completion]) -> None:
        """Store completions, all or none; the first whole one stored under a key stays."""
        self._write("completions", completions, _COMPLETION.dump_json)

    def add_judgements(self, judgements: Mapping[str, Valid]) -> None:
        """Store judgements, all or none; the first one stored under a key stays."""
        self._write("judgements", judgements, _JUDGEMENT.dump_json)

    def use(self, keys: Iterable[str]) -> None:
        """Record that a run needs these keys, so that ``drop`` keeps them."""
        now = int(time.time())
        with self._db.faults(), self._db.transaction():
            # Sorted like the table, so that each of its pages is written once.
            rows = ((now, key) for key in sorted(keys))
            self._db.executemany("UPDATE uses SET time = ? WHERE key = ?", rows)

    def contents(self) -> Contents:
        """How much the store holds."""
        return self._contents("")

    def unused(self, since: float, keep: Collection[str] = ()) -> Contents:
        """How much of it no run has needed since a time.

        Args:
            since: seconds since 1970.
            keep: keys to count as needed in any case.
        """
        with self._db.faults():
            self._choose(since, keep)
        return self._contents("WHERE key IN unused")

    def drop(self, since: float, keep: Collection[str] = ()) -> None:
        """Delete what is ``unused``, and give its space back to the disk."""
        with self._db.faults():
            with self._db.transaction():  # no run can start to need the chosen keys
                self._choose(since, keep)
                for table in (*TABLES, "uses"):
                    self._db.execute(f"DELETE FROM {table} WHERE key IN unused")
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def size(self) -> int:
        """Bytes that the store takes on disk."""
        return self._db.size()

    def _contents(self, which: str) -> Contents:
        with self._db.faults():
            query = f"SELECT count(*), total(length(CAST(value AS BLOB))) FROM {{}} {which}"
            rows = [self._db.execute(query.format(table)).fetchone() for table in TABLES]
        (completions, texts), (judgements, verdicts) = rows
        return Contents(completions, judgements, int(texts + verdicts))

    def _choose(self, since: float, keep: Collection[str]) -> None:
        """Put the keys that no run has needed since a time into a table."""
        self._db.execute("DROP TABLE IF EXISTS temp.unused")
        self._db.execute("CREATE TEMP TABLE unused (key TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute("INSERT INTO unused SELECT key FROM uses WHERE time < ?", [since])
        self._db.executemany("DELETE FROM unused WHERE key = ?", ((key,) for key in keep))

    def _read(
        self, table: Table, keys: Iterable[str], parse: Callable[[str], Value]
    ) -> dict[str, Value]:
        try:
            with self._db.faults():
                return {key: parse(value) for key, value in self._select(table, "key, value", keys)}
        except ValidationError as fault:
            raise self._db.error(f"one of its {table} cannot be parsed") from fault

    def _select(self, table: Table, columns: str, keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
        wanted = iter(keys)
        while chunk := list(islice(wanted, _CHUNK)):
            marks = ",".join("?" * len(chunk))
            yield from self._db.execute(
                f"SELECT {columns} FROM {table} WHERE key IN ({marks})", chunk
            )

    def _write(
        self, table: Table, values: Mapping[str, Value], dump: Callable[[Value], bytes]
    ) -> None:
        if not values:
            return
        rows = [(key, dump(value).decode()) for key, value in values.items()]
        with self._db.faults(), self._db.transaction():
            self._db.executemany(f"INSERT INTO {table} VALUES (?, ?) {_KEEP}", rows)
            now = int(time.time())
            self._db.executemany("REPLACE INTO uses VALUES (?, ?)", ((key, now) for key in values))


def _create(execute: Execute, old: set[str]) -> None:
    """Create the tables, with the content of a file of format 0.

    The tables keep SQLite's row ids: rows have a thousand bytes and more, and without row ids most
    would take a page of their own.
    """
    execute("CREATE TABLE uses (key TEXT PRIMARY KEY, time INTEGER NOT NULL) WITHOUT ROWID")
    for table in TABLES:
        if table in old:
            execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        execute(f"CREATE TABLE {table} (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        if table in old:
            execute(f"INSERT INTO {table} SELECT key, value FROM old_{table}")
            execute(f"INSERT OR IGNORE INTO uses SELECT key, ? FROM {table}", [int(time.time())])
            execute(f"DROP TABLE old_{table}")
