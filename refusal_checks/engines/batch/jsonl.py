"""OpenAI's batch files: one request, or one result, per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from refusal_checks.core.errors import UserError
from refusal_checks.core.json_text import parse
from refusal_checks.core.keys import content_key
from refusal_checks.models.client.http_errors import error_words

URL = "/v1/chat/completions"
"""The path of every request of a batch."""

_LONGEST_ID = 512
"""Characters of a request's id; this package's have 32."""

Fault = Literal["failed", "malformed"]
"""Why a line has no answer: the server failed, or the line cannot be read."""


def custom_id(body: Mapping[str, Any]) -> str:
    """A request's id: the content key of its body, which identifies its result."""
    return content_key(URL, body)


class RequestFile:
    """A batch file that is being written; it gets its name when it is complete.

    Attributes:
        count: requests written.
        size: their bytes.

    Raises:
        UserError: it cannot be written.
    """

    def __init__(self, part: Path) -> None:
        self.count = self.size = 0
        self._part = part
        self._file: BinaryIO | None = None

    def add(self, request_id: str, body: Mapping[str, Any]) -> None:
        """Write a request."""
        request = {"custom_id": request_id, "method": "POST", "url": URL, "body": body}
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        with self._faults():
            if self._file is None:
                self._part.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._part.open("wb")
            self.size += self._file.write(line)
        self.count += 1

    def publish(self, path: Path) -> None:
        """Give the complete file its name."""
        with self._faults():
            self.close()
            self._part.replace(path)

    def close(self) -> None:
        """Write out what is buffered."""
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        """Remove the file unless it was published."""
        with suppress(OSError):  # it is removed anyway
            self.close()
        self._part.unlink(missing_ok=True)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            raise UserError(f"{self._part}: cannot be written: {fault}") from None


@dataclass(frozen=True)
class Result:
    """One line of a results file.

    Attributes:
        id: the request's; empty if the line has none.
        body: the server's answer, or None.
        fault: why there is none.
        words: the server's message, or what is wrong with the line; untrusted text.
    """

    id: str
    body: Mapping[str, Any] | None = None
    fault: Fault | None = None
    words: str = ""


def results(path: Path) -> Iterator[Result]:
    """The lines of a results file, one at a time; a malformed one is a ``Result`` too.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from (read_result(line) for line in file if line.strip())
    except OSError as fault:
        raise UserError(f"{path}: cannot be read: {fault}") from None


def read_result(line: bytes) -> Result:
    """Read one line of a results file."""
    try:
        found = parse(line)
    except ValueError as fault:
        return Result("", fault="malformed", words=f"not valid JSON: {fault}")
    request_id = found.get("custom_id") if isinstance(found, dict) else None
    if not isinstance(request_id, str) or not 0 < len(request_id) <= _LONGEST_ID:
        return Result("", fault="malformed", words="no custom_id")
    response, error = found.get("response"), found.get("error")
    answered = response if isinstance(response, dict) else {}
    status, body = answered.get("status_code"), answered.get("body")
    if error is not None or (answered and status != 200):
        message = error_words(json.dumps(body if error is None else error))
        return Result(request_id, fault="failed", words=f"status {str(status)[:40]}: {message}")
    if not _has_choices(body):
        return Result(request_id, fault="malformed", words="no choices in the response's body")
    return Result(request_id, body)


def _has_choices(body: Any) -> bool:
    choices = body.get("choices") if isinstance(body, dict) else None
    return isinstance(choices, list) and bool(choices) and all(map(_is_choice, choices))


def _is_choice(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)
