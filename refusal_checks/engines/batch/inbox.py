"""Read OpenAI's batch files (one request or result per line), and keep results until used."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from refusal_checks.core.database import Database, Execute
from refusal_checks.core.errors import StoreError, UserError
from refusal_checks.core.store import content_key
from refusal_checks.core.strict_json import parse_json
from refusal_checks.models.client.server_errors import error_words, is_filtered

URL = "/v1/chat/completions"
"""The path of every request of a batch."""

WITHHELD: Mapping[str, Any] = {"withheld": True}
"""Stands for the body of a result that a content filter withheld."""

Fault = Literal["failed", "malformed"]
"""Why a line has no answer: the server failed, or the line cannot be read."""


def custom_id(body: Mapping[str, Any]) -> str:
    """A request's id in batch files: the content key of its body."""
    return content_key(URL, body)


@dataclass(frozen=True)
class ResultLine:
    """One line of a results file.

    Attributes:
        id: the request's id; empty if the line has none.
        fault: why there is no body; None if there is one.
        words: the server's message, or what is wrong with the line; untrusted text.
    """

    id: str
    body: Mapping[str, Any] | None = None
    fault: Fault | None = None
    words: str = ""


class _RequestError(Exception):
    """A line of a results file holds a request."""


def read_results(path: Path) -> Iterator[ResultLine]:
    """Yield the lines of a results file; a malformed line is a ``ResultLine`` with a fault.

    Raises UserError for a file that cannot be read or that holds requests.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield read_result(line)
    except _RequestError:
        raise UserError(
            f"{path}: name the file with the batch's results: this one has its requests"
        ) from None
    except OSError as fault:
        raise UserError(f"{path}: cannot be read: {fault}") from None


def _is_request(row: Mapping[str, Any]) -> bool:
    """True for a line of a request file: it has a body to send and no response."""
    fields = {"custom_id", "method", "url", "body"}
    return fields <= row.keys() and "response" not in row


def read_result(line: bytes) -> ResultLine:
    """Read any line of a results file."""
    try:
        row = parse_json(line)
    except ValueError as fault:
        return ResultLine("", fault="malformed", words=f"not valid JSON: {fault}")
    if not isinstance(row, dict):
        return ResultLine("", fault="malformed", words="no custom_id")
    if _is_request(row):
        raise _RequestError
    request_id = row.get("custom_id")
    if not isinstance(request_id, str) or not 0 < len(request_id) <= LONGEST_ID:
        return ResultLine("", fault="malformed", words="no custom_id")

    error, response = row.get("error"), row.get("response")
    if not isinstance(response, dict):
        response = {}
    status, body = response.get("status_code"), response.get("body")
    if error is not None or (response and status != 200):
        said = json.dumps(body if error is None else error)
        if is_filtered(said):
            return ResultLine(request_id, WITHHELD)
        message = error_words(said)
        words = f"status {str(status)[:40]}: {message}"
        return ResultLine(request_id, fault="failed", words=words)

    if not _has_messages(body):
        words = "no choices in the response's body"
        return ResultLine(request_id, fault="malformed", words=words)
    return ResultLine(request_id, body)


def _has_messages(body: Any) -> bool:
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        return False
    for choice in choices:
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            return False
    return True


LONGEST_ID = 512
"""Characters of a request's id at most."""

FORMAT = 1  # of the table; raised when its meaning changes


class Inbox:
    """Keeps imported results, in a SQLite file, until the store has their answers and verdicts.

    A result is removed once used. Unreadable verdicts stay: nothing else holds them, and a second
    verdict is asked for only after them. Changes are rolled back if ``clear`` is never reached.
    The file lies beside the store's, and is removed when empty.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(f"{store.stem}-batch.sqlite")
        self._db = Database(path, FORMAT, ("results",), _create)
        # Only for this round; SQLite moves it to disk if it is large.
        self._run(
            "CREATE TEMP TABLE asked (id TEXT PRIMARY KEY, kept INTEGER) WITHOUT ROWID"
        )
        self._run("CREATE TEMP TABLE held (server INTEGER, line TEXT)")

    def close(self) -> None:
        with suppress(StoreError):  # it takes part in no transaction
            self._run("ROLLBACK")
        is_empty = not self._count("true")
        self._db.close()
        if is_empty:
            self._db.path.unlink(missing_ok=True)

    def take(self, lines: Iterable[ResultLine]) -> tuple[Counter[str], list[str]]:
        """Store the lines of result files; the first line for a request counts.

        Returns the numbers of ``answered``, ``failed``, ``malformed`` and ``duplicate`` lines, and
        the words of the first three faults, untrusted text.
        """
        # A result that an earlier import left here is no duplicate.
        insert = (
            "INSERT INTO results VALUES (?, ?, 1) "
            "ON CONFLICT DO UPDATE SET fresh = 1 WHERE NOT fresh"
        )
        counts, examples = Counter[str](), list[str]()
        self._run("BEGIN IMMEDIATE")
        for line in lines:
            if line.fault:
                counts[line.fault] += 1
                if len(examples) < 3:
                    examples.append(f"{line.id} {line.words}".strip())
            elif self._run(insert, line.id, json.dumps(line.body)).rowcount > 0:
                counts["answered"] += 1
            else:
                counts["duplicate"] += 1
        return counts, examples

    def get(self, request_id: str) -> Any:
        query = "SELECT body FROM results WHERE id = ?"
        row = self._run(query, request_id).fetchone()
        return json.loads(row[0]) if row else None

    def ask(self, request_id: str) -> bool:
        """Note that a run makes this request; True the first time."""
        query = "INSERT OR IGNORE INTO asked VALUES (?, 0)"
        return bool(self._run(query, request_id).rowcount > 0)

    def hold(self, server: int, request_id: str, body: Mapping[str, Any]) -> None:
        """Keep a request for the batch file of a server."""
        request = {"custom_id": request_id, "method": "POST", "url": URL, "body": body}
        line = json.dumps(request, separators=(",", ":")) + "\n"
        self._run("INSERT INTO held VALUES (?, ?)", server, line)

    def held(self, server: int) -> Iterator[str]:
        query = "SELECT line FROM held WHERE server = ? ORDER BY rowid"
        return (line for (line,) in self._run(query, server))

    def keep(self, ids: Iterable[str]) -> None:
        for request_id in ids:
            self._run("UPDATE asked SET kept = 1 WHERE id = ?", request_id)

    def clear(self) -> Counter[str]:
        """Remove used results that need not be kept, and results of requests that nobody made."""
        which = {
            "used": "id IN (SELECT id FROM asked WHERE kept = 0)",
            "kept": "id IN (SELECT id FROM asked WHERE kept = 1)",
            "unasked": "fresh AND id NOT IN (SELECT id FROM asked)",
        }
        count = Counter(
            {name: self._count(condition) for name, condition in which.items()}
        )
        for name in ("used", "unasked"):
            self._run(f"DELETE FROM results WHERE {which[name]}")  # noqa: S608 (constants above)
        self._run("UPDATE results SET fresh = 0")
        self._run("COMMIT")
        return count

    def _count(self, condition: str) -> int:
        query = f"SELECT count(*) FROM results WHERE {condition}"  # noqa: S608 (constants of clear)
        (count,) = self._run(query).fetchone()
        return int(count)

    def _run(self, query: str, *values: str | int) -> Any:
        with self._db.faults():
            return self._db.execute(query, values)


def _create(execute: Execute) -> None:
    execute(
        "CREATE TABLE results (id TEXT PRIMARY KEY, body TEXT NOT NULL, fresh INTEGER NOT NULL) "
        "WITHOUT ROWID"
    )
