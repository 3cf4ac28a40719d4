"""Results of batches between their import and the moment when the store holds what they say."""

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
        StoreError: it cannot be opened, read or written; by any of the methods, too.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(f"{store.stem}-batch.sqlite")
        self._db = Database(path, FORMAT, ("results",), _create)
        self._closed = False
        # Of this round alone, and on disk where it is large.
        self._run("CREATE TEMP TABLE asked (id TEXT PRIMARY KEY, kept INTEGER) WITHOUT ROWID")

    def close(self) -> None:
        """Close the file, and remove it where it is empty; does nothing the second time."""
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
        """Take in the lines of result files; of several for one request the first stays."""
        reading = Reading()
        self._run("BEGIN IMMEDIATE")
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
            "INSERT INTO results VALUES (?, ?, 1) "
            "ON CONFLICT DO UPDATE SET fresh = 1 WHERE NOT fresh"
        )
        return bool(self._run(query, id, json.dumps(body)).rowcount > 0)

    def get(self, id: str) -> Any:
        """A request's result; None where there is none."""
        found = self._run("SELECT body FROM results WHERE id = ?", id).fetchone()
        return json.loads(found[0]) if found else None

    def ask(self, id: str) -> bool:
        """Note that a run makes this request; whether it does so for the first time."""
        return bool(self._run("INSERT OR IGNORE INTO asked VALUES (?, 0)", id).rowcount > 0)

    def keep(self, ids: Iterable[str]) -> None:
        """Let the results of these requests stay."""
        for id in ids:
            self._run("UPDATE asked SET kept = 1 WHERE id = ?", id)

    def clear(self) -> Counter[str]:
        """Remove what was asked for and is not to stay, and what nobody asked for.

        Returns:
            How many results were ``used``, ``kept`` and ``unasked``.
        """
        used, kept = (f"id IN (SELECT id FROM asked WHERE kept = {n})" for n in (0, 1))
        unasked = "fresh AND id NOT IN (SELECT id FROM asked)"
        count = Counter(
            used=self._count(used), kept=self._count(kept), unasked=self._count(unasked)
        )
        self._run(f"DELETE FROM results WHERE ({used}) OR ({unasked})")
        self._run("UPDATE results SET fresh = 0")
        self._run("COMMIT")
        return count

    def _count(self, condition: str) -> int:
        (found,) = self._run(f"SELECT count(*) FROM results WHERE {condition}").fetchone()
        return int(found)

    def _run(self, query: str, *values: str) -> Any:
        with self._db.faults():
            return self._db.execute(query, values)


def _create(execute: Execute, old: set[str]) -> None:
    execute(
        "CREATE TABLE results (id TEXT PRIMARY KEY, body TEXT NOT NULL, fresh INTEGER NOT NULL) "
        "WITHOUT ROWID"
    )
