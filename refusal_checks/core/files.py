"""Write files whole or not at all, and say why a file cannot be read."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from refusal_checks.core.errors import DataError
from refusal_checks.core.suggestions import near

_NAME = re.compile(r"\w(?:[\w .+-]{0,98}[\w+-])?")


def is_file_name(name: str) -> bool:
    """True if a name from anybody is safe as a file name: it stays in its folder on any system."""
    return _NAME.fullmatch(name) is not None


FILE_NAME = "1 to 100 letters, digits and _ . + - or spaces within"
"""What ``is_file_name`` asks for."""


def resolved(path: Path) -> Path:
    """Resolve links; a path whose links form a circle stays as it is.

    ``Path.resolve`` raises a RuntimeError for such a path until Python 3.13.
    """
    return Path(os.path.realpath(path))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a UTF-8 text file as they arrive; each ends with its own line feed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.writelines(line.encode("utf-8", "replace") for line in lines)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)  # gives its space back to a disk that may be full
        raise


def write_text(path: Path, text: str) -> None:
    write_lines(path, [text])


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False))


def why_no_file(path: Path, remedy: str = "; check its path") -> str:
    """Say why a path cannot be read as a file; empty if it can.

    ``remedy`` ends the message for a missing file unless a file of a similar name is there.
    """
    if path.is_dir():
        return "name a file: it is a folder"
    if path.is_file():
        return ""
    if path.exists():
        return "save it to a file first: it is a pipe or device, and is read more than once"
    if path.is_symlink():
        return "mend the link, or name another file: its target does not exist"
    alike = []
    for other in path.parent.glob("*"):
        if near(path.stem, [other.stem], 0.7):
            alike.append(other.name)
    return f"no such file{near(path.name, alike, 0.7) or remedy}"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        why = why_no_file(path) or f"cannot be read: {fault.strerror}"
        raise DataError(f"{path}: {why}") from None
    except ValueError as fault:  # a name that no file can have
        raise DataError(f"{str(path)!r}: cannot be read: {fault}") from None


def read_bytes(path: Path) -> bytes:
    with _reading(path):
        return path.read_bytes()


def sha256(path: Path) -> str:
    """The SHA-256 digest of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
