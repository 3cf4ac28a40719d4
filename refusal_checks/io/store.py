# ruff: noqa: S608 (the names of tables and columns are this module's own)
"""Completions and judgements by content key, in one SQLite file, so that a rerun repeats nothing.

Once a write returns, a crash of the process loses nothing, and a power failure only the last
moments. Only one run at a time uses a file (see ``store_lock``); others may read it.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self
from uuid import uuid4

from pydantic import Field, TypeAdapter, ValidationError

from refusal_checks.core.judgements import ABORTED, Valid
from refusal_checks.core.records import Completion
from refusal_checks.io.database import Database, Execute

# Sorted and compact, so that equal values have one text; ASCII, so that no normalisation of Unicode
# can make two texts of it.
_JSON = json.JSONEncoder(
    sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str
)


def content_key(*parts: Any) -> str:
    """32 hexadecimal digits, the same for equal JSON-like parts in every process."""
    return hashlib.sha256(_JSON.encode(parts).encode()).hexdigest()[:32]


FORMAT = 7  # of the tables; raised when their meaning changes, or that of the keys

TABLES: Mapping[str, TypeAdapter[Any]] = {
    "completions": TypeAdapter(Completion),
    "judgements": TypeAdapter(Annotated[Valid, Field(discriminator="kind")]),
}

_CHUNK = 500  # SQLite's oldest limit on variables in a statement is 999


class Generation(NamedTuple):
    """One generation of a model's answers: those to one run and its restarts.

    Attributes:
        id: part of the keys; empty if there is none yet.
        began: seconds since the epoch.
        is_open: False once a run has decided all its gates with it.
    """

    id: str = ""
    began: int = 0
    is_open: bool = False


class Store:
    """Completions and judgements by content key; a context manager that closes the file.

    Failures are never stored, so a rerun tries them again. With ``retry_unfinished``, answers that
    a server cut off for its own reasons (``content_filter``) count as missing, too. ``changed``
    counts rows that differ from what was written; they are deleted and asked for again.

    ``begin_generation`` sets aside everything stored for a model: its keys contain the generation.
    The old rows stay.
    """

    def __init__(self, path: Path, retry_unfinished: bool = False) -> None:
        self.path = path
        self.changed = 0
        self._retry_unfinished = retry_unfinished
        self._db = Database(path, FORMAT, tuple(TABLES), _create_tables)
        self.close = self._db.close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()

    def completions(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The stored completions for these keys, without those that a server cut off."""
        completions: dict[str, Completion] = {}
        for key, completion in self._read("completions", keys).items():
            if self._is_whole(completion.finish_reason):
                completions[key] = completion
        return completions

    def _is_whole(self, finish_reason: str) -> bool:
        if finish_reason in ("stop", "length"):
            return True
        return not self._retry_unfinished and finish_reason not in ABORTED

    def judgements(self, keys: Iterable[str]) -> dict[str, Valid]:
        """The stored judgements for these keys."""
        return self._read("judgements", keys)

    def judged_keys(self, keys: Iterable[str]) -> set[str]:
        """The keys that have a stored judgement, without parsing it."""
        return {key for key, _ in self._read_sound_rows("judgements", keys)}

    def add_completions(self, completions: Mapping[str, Completion]) -> None:
        """Store all completions or none; each key keeps its first complete one."""
        self._write("completions", completions)

    def add_judgements(self, judgements: Mapping[str, Valid]) -> None:
        """Store all judgements or none; each key keeps its first one."""
        self._write("judgements", judgements)

    def time_span(self, keys: Iterable[str]) -> tuple[int, int] | None:
        """When the first and last of these completions were stored, in seconds since the epoch.

        None if none of them is stored.
        """
        ends: list[int] = []
        with self._db.faults():
            for chunk in _chunks(keys):
                query = (
                    "SELECT min(written), max(written) FROM completions "
                    f"WHERE key IN ({_placeholders(chunk)})"
                )
                first, last = self._db.execute(query, chunk).fetchone()
                if first is not None:
                    ends += [first, last]
        if not ends:
            return None
        return min(ends), max(ends)

    def generation(self, identity: str) -> Generation:
        """The newest generation of a model's stored answers."""
        with self._db.faults():
            query = "SELECT generation, began, is_open FROM models WHERE identity = ?"
            row = self._db.execute(query, [identity]).fetchone()
        return Generation(*row) if row else Generation()

    def begin_generation(self, identity: str) -> None:
        """Begin a generation, which sets aside everything stored for the model."""
        row = identity, uuid4().hex[:12], int(time.time()), True
        with self._db.faults():
            self._db.execute("REPLACE INTO models VALUES (?, ?, ?, ?)", row)

    def end_generation(self, identity: str) -> None:
        """Close a model's generation; its answers stay in use until the next one begins."""
        with self._db.faults():
            self._db.execute(
                "UPDATE models SET is_open = 0 WHERE identity = ?", [identity]
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything in the block, or nothing if it raises."""
        with self._db.faults(), self._db.transaction():
            yield

    def count_completions(self) -> int:
        """How many answers of all models are stored."""
        with self._db.faults():
            query = "SELECT count(*) FROM completions"
            count: int = self._db.execute(query).fetchone()[0]
        return count

    def _read(self, table: str, keys: Iterable[str]) -> dict[str, Any]:
        parse = TABLES[table].validate_json
        try:
            return {
                key: parse(value) for key, value in self._read_sound_rows(table, keys)
            }
        except ValidationError:  # it quotes what it cannot read
            raise self._db.error(f"one of its {table} cannot be parsed") from None

    def _read_sound_rows(
        self, table: str, keys: Iterable[str]
    ) -> list[tuple[str, bytes]]:
        """Return the rows with these keys whose digest matches; delete the others."""
        sound: list[tuple[str, bytes]] = []
        changed: list[tuple[str]] = []
        with self._db.faults():
            for chunk in _chunks(keys):
                # Bytes that are not UTF-8 would stop the reading of all rows.
                query = (
                    f"SELECT key, CAST(value AS BLOB), digest FROM {table} "
                    f"WHERE key IN ({_placeholders(chunk)})"
                )
                for key, value, digest in self._db.execute(query, chunk):
                    if digest == _digest(key, value):
                        sound.append((key, value))
                    else:
                        changed.append((key,))
            if changed:
                with self._db.transaction():
                    self._db.executemany(f"DELETE FROM {table} WHERE key = ?", changed)
        self.changed += len(changed)
        return sound

    def _write(self, table: str, values: Mapping[str, Any]) -> None:
        if not values:
            return
        now = int(time.time())  # reports say from which day stored answers are
        rows = []
        for key, value in values.items():
            text = TABLES[table].dump_json(value)
            rows.append((key, text.decode(), _digest(key, text), now))
        with self._db.faults(), self._db.transaction():
            # What is stored stays, but for an answer that a server ended for its own reasons.
            self._db.executemany(
                f"INSERT INTO {table} VALUES (?, ?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value, digest = excluded.digest, "
                "written = excluded.written "
                "WHERE json_extract(value, '$.finish_reason') NOT IN ('stop', 'length')",
                rows,
            )


def _chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk


def _placeholders(chunk: Sequence[str]) -> str:
    return ",".join("?" * len(chunk))


def _digest(key: str, value: bytes) -> bytes:
    """Digest of a row and its key; reveals changed rows and rows moved to another key."""
    # BLAKE2 takes a key of at most 64 bytes; ours have 32 digits, and a sample's number.
    return hashlib.blake2b(value, digest_size=8, key=key.encode()[:64]).digest()


def _create_tables(execute: Execute) -> None:
    """Create the tables.

    They keep SQLite's row ids: without them, most rows, of a thousand bytes or more, would take up
    a page each.
    """
    for table in TABLES:
        execute(
            f"CREATE TABLE {table} (key TEXT PRIMARY KEY, value TEXT NOT NULL, digest BLOB, "
            "written INTEGER NOT NULL)"
        )
    execute(
        "CREATE TABLE models (identity TEXT PRIMARY KEY, generation TEXT, began INTEGER, "
        "is_open INTEGER)"
    )
