"""Results of batches between their import and the moment when the store holds what they say."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.batch.files import Result
from refusal_checks.errors import StoreError

SHOWN = 3
"""Faults of result lines that are shown word for word."""

_CREATE = """
CREATE TABLE IF NOT EXISTS results (
    id TEXT PRIMARY KEY, body TEXT NOT NULL,
    fresh INTEGER DEFAULT 1, used INTEGER DEFAULT 0, kept INTEGER DEFAULT 0
) WITHOUT ROWID
"""


@dataclass
class Reading:
    """What the lines of result files were.

    Attributes:
        counts: of ``answered``, ``failed``, ``malformed`` and ``duplicate`` lines.
        examples: the first faults in words; untrusted text.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, result: Result, what: str) -> None:
        """Count one line."""
        self.counts[what] += 1
        if result.fault and len(self.examples) < SHOWN:
            self.examples.append(f"{result.id} {result.words}".strip())


class Results:
    """Results by their request's id, in a SQLite file.

    A result leaves once it was used. Those of verdicts that cannot be read stay: nothing else holds
    what they say, and a second verdict is asked for only after them. All that happens before
    ``clear`` is undone where that is never reached.

    Args:
        store: the store's file; this one lies beside it, for as long as it holds anything.

    Raises:
        StoreError: it cannot be opened, read or written.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(f"{store.stem}-batch.sqlite")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Opened by the main thread and used by the evaluation's, never by both at once.
            self._db = sqlite3.connect(
                self._path, timeout=60, isolation_level=None, check_same_thread=False
            )
        except (sqlite3.Error, OSError) as fault:
            raise self._error(fault) from fault
        self._run(_CREATE)
        self._run("CREATE TEMP TABLE asked (id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._run("BEGIN")

    def close(self) -> None:
        """Close the file, and remove it where it is empty."""
        if self._db.in_transaction:
            self._run("ROLLBACK")
        is_empty = not self._count("true")
        self._db.close()
        if is_empty:
            self._path.unlink(missing_ok=True)

    def take(self, found: Iterable[Result]) -> Reading:
        """Take in the lines of result files; of several for one request the first stays."""
        reading = Reading()
        for result in found:
            if result.body is None:
                reading.add(result, str(result.fault))
            else:
                is_first = self._insert(result.id, result.body)
                reading.add(result, "answered" if is_first else "duplicate")
        return reading

    def _insert(self, id: str, body: Mapping[str, Any]) -> bool:
        # A result that an earlier import left here is no duplicate.
        query = (
            "INSERT INTO results (id, body) VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET fresh = 1 WHERE NOT fresh"
        )
        return self._run(query, id, json.dumps(body)).rowcount > 0

    def get(self, id: str) -> Any:
        """A request's result; None where there is none."""
        found = self._run("UPDATE results SET used = 1 WHERE id = ? RETURNING body", id).fetchall()
        return json.loads(found[0][0]) if found else None

    def keep(self, ids: Iterable[str]) -> None:
        """Let these results stay, though they were used."""
        for id in ids:
            self._run("UPDATE results SET kept = 1 WHERE id = ?", id)

    def is_first(self, id: str) -> bool:
        """Whether this method is asked for this id for the first time."""
        return self._run("INSERT OR IGNORE INTO asked VALUES (?)", id).rowcount > 0

    def clear(self) -> Counter[str]:
        """Remove what was used, and what nobody asked for; the last call before ``close``.

        Returns:
            How many results were ``used``, ``kept`` and ``unasked``.
        """
        count = Counter(
            used=self._count("used AND NOT kept"),
            kept=self._count("used AND kept"),
            unasked=self._count("fresh AND NOT used"),
        )
        self._run("DELETE FROM results WHERE (used AND NOT kept) OR (fresh AND NOT used)")
        self._run("UPDATE results SET fresh = 0, used = 0, kept = 0")
        self._run("COMMIT")
        return count

    def _count(self, condition: str) -> int:
        (found,) = self._run(f"SELECT count(*) FROM results WHERE {condition}").fetchone()
        return int(found)

    def _run(self, query: str, *values: str) -> sqlite3.Cursor:
        try:
            return self._db.execute(query, values)
        except sqlite3.Error as fault:
            raise self._error(fault) from fault

    def _error(self, fault: Exception) -> StoreError:
        return StoreError(f"results of batches, {self._path}: {fault}")
