"""Results of batches from their import until the store holds their answers and verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.core.database import Database, Execute
from refusal_checks.engines.batch.jsonl import Result

FORMAT = 1
"""Of the table; raised when its meaning changes."""

SHOWN = 3
"""Faults of result lines that are shown word for word."""


@dataclass
class Reading:
    """Counts of the lines of result files.

    Attributes:
        counts: of ``answered``, ``failed``, ``malformed`` and ``duplicate`` lines.
        examples: messages of the first faults; untrusted text.
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

    A result is removed once used. Unreadable verdicts stay: nothing else holds them, and a second
    verdict is asked for only after them. Changes are rolled back if ``clear`` is never reached.

    Args:
        store: the store's file; this one lies beside it, and is removed when empty.

    Raises:
        StoreError: it cannot be opened, read or written; by any of the methods, too.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(f"{store.stem}-batch.sqlite")
        self._db = Database(path, FORMAT, ("results",), _create)
        self._closed = False
        # Only for this round; SQLite moves it to disk if it is large.
        self._run("CREATE TEMP TABLE asked (id TEXT PRIMARY KEY, kept INTEGER) WITHOUT ROWID")

    def close(self) -> None:
        """Close the file, and remove it if it is empty; does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        if self._db.in_transaction:
            self._run("ROLLBACK")
        is_empty = not self._count("true")
        self._db.close()
        if is_empty:
            self._db.path.unlink(missing_ok=True)

    def take(self, found: Iterable[Result]) -> Reading:
        """Store the lines of result files; of several for one request the first one counts."""
        reading = Reading()
        self._run("BEGIN IMMEDIATE")
        for result in found:
            if result.body is None:
                reading.add(result, str(result.fault))
            else:
                is_first = self._insert(result.id, result.body)
                reading.add(result, "answered" if is_first else "duplicate")
        return reading

    def _insert(self, request_id: str, body: Mapping[str, Any]) -> bool:
        # A result that an earlier import left here is no duplicate.
        query = (
            "INSERT INTO results VALUES (?, ?, 1) "
            "ON CONFLICT DO UPDATE SET fresh = 1 WHERE NOT fresh"
        )
        return bool(self._run(query, request_id, json.dumps(body)).rowcount > 0)

    def get(self, request_id: str) -> Any:
        """A request's result, or None."""
        found = self._run("SELECT body FROM results WHERE id = ?", request_id).fetchone()
        return json.loads(found[0]) if found else None

    def ask(self, request_id: str) -> bool:
        """Record that a run makes this request; True the first time."""
        query = "INSERT OR IGNORE INTO asked VALUES (?, 0)"
        return bool(self._run(query, request_id).rowcount > 0)

    def keep(self, ids: Iterable[str]) -> None:
        """Keep the results of these requests."""
        for request_id in ids:
            self._run("UPDATE asked SET kept = 1 WHERE id = ?", request_id)

    def clear(self) -> Counter[str]:
        """Remove used results that are not to be kept, and those of requests that nobody made.

        Returns:
            The number of results that were ``used``, ``kept`` and ``unasked``.
        """
        used = "id IN (SELECT id FROM asked WHERE kept = 0)"
        kept = "id IN (SELECT id FROM asked WHERE kept = 1)"
        unasked = "fresh AND id NOT IN (SELECT id FROM asked)"
        count = Counter(
            used=self._count(used), kept=self._count(kept), unasked=self._count(unasked)
        )
        self._run(f"DELETE FROM results WHERE ({used}) OR ({unasked})")  # noqa: S608 (constants above)
        self._run("UPDATE results SET fresh = 0")
        self._run("COMMIT")
        return count

    def _count(self, condition: str) -> int:
        query = f"SELECT count(*) FROM results WHERE {condition}"  # noqa: S608 (constants of clear)
        (count,) = self._run(query).fetchone()
        return int(count)

    def _run(self, query: str, *values: str) -> Any:
        with self._db.faults():
            return self._db.execute(query, values)


def _create(execute: Execute, old: set[str]) -> None:
    execute(
        "CREATE TABLE results (id TEXT PRIMARY KEY, body TEXT NOT NULL, fresh INTEGER NOT NULL) "
        "WITHOUT ROWID"
    )
