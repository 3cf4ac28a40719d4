"""Write files whole or not at all, and say why a file cannot be read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.suggestions import suggest

_NAME = re.compile(r"\w(?:[\w .+-]{0,98}[\w+-])?")


def is_file_name(name: str) -> bool:
    """True if an untrusted name is safe as a file name: it stays in its folder on any system."""
    return _NAME.fullmatch(name) is not None


FILE_NAME = "1 to 100 letters, digits and _ . + - or inner spaces"
"""What ``is_file_name`` allows."""


LARGEST = 512 * 2**20
"""Size limit for files that are read, and for their unpacked tables, in bytes."""

Content = TypeVar("Content")

_forget: list[Callable[[], None]] = []


def read_once(function: Callable[..., Content]) -> Callable[..., Content]:
    """Decorate a function that reads the user's files: cache its results until ``forget_files``."""
    cached = cache(function)
    _forget.append(cached.cache_clear)
    return cached


def forget_files() -> None:
    """Forget what was read, since a process may train into a folder and evaluate it again."""
    for forget in _forget:
        forget()


def resolve_path(path: Path) -> Path:
    """Resolve links; a path whose links loop stays as it is.

    Before Python 3.13, ``Path.resolve`` raises a RuntimeError for one.
    """
    return Path(os.path.realpath(path))


def make_private_folder(path: Path) -> None:
    """Make a folder and its missing parents, for this user only.

    Other users of the machine must not read models' answers or private prompts.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        # Not parents=True, which gives those above the usual mode.
        make_private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


@dataclass(frozen=True)
class FileDigest:
    """What a file held when it was written: its SHA-256 in hex, and its size in bytes."""

    sha256: str
    size: int


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a draft to write, which replaces the path once it is complete and on disk.

    Until then, or if the draft cannot be written, an existing file stays as it is. A link is
    replaced, not followed. A device, such as ``/dev/stdout``, is written directly.

    Raises:
        OSError: the file cannot be written; its ``filename`` is the path.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with _name_file_in_errors(path, path):
            yield path
        return
    # Nobody can guess the name and lay a link there.
    draft = path.parent / f".{secrets.token_hex(8)}.tmp"
    with _name_file_in_errors(path, draft):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Read by whom the folder lets in: a run's folder by its owner alone, a report by CI.
        draft.touch(0o666 & path.parent.stat().st_mode, exist_ok=False)
        try:
            yield draft
            _sync(draft)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)  # gives its space back to a full disk
            raise
    with suppress(OSError):  # some network file systems have no such call for folders
        _sync(path.parent)


@contextmanager
def _name_file_in_errors(path: Path, draft: Path) -> Iterator[None]:
    """Make an OSError about a draft name the file instead; leave others alone."""
    try:
        yield
    except OSError as fault:
        if str(fault.filename or draft) != str(draft):
            raise
        why = fault.strerror or str(fault)
        raise OSError(fault.errno or 0, why, str(path)) from None


def _sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_lines(path: Path, lines: Iterable[str]) -> FileDigest:
    """Write lines, which end with line feeds, to a UTF-8 text file as they arrive.

    The file is complete or unchanged; see ``replace_file``.
    """
    digest, size = hashlib.sha256(), 0
    with replace_file(path) as draft, draft.open("wb") as file:
        for line in lines:
            content = line.encode("utf-8", "replace")
            file.write(content)
            digest.update(content)
            size += len(content)
    return FileDigest(digest.hexdigest(), size)


def write_text(path: Path, text: str) -> FileDigest:
    """Write a UTF-8 text file completely or not at all."""
    return write_lines(path, [text])


def write_json(path: Path, value: object) -> FileDigest:
    """Write a value as readable JSON, completely or not at all."""
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False))


_SEAL = re.compile(rb'\n *"sha256": "([0-9a-f]{64})"\n}\n?\Z')


def append_seal(parts: Iterable[str]) -> Iterator[str]:
    """End a JSON object with ``sha256``, the digest of everything before it.

    The parts end with the comma after the last member, and a line feed. So
    ``head -n -2 FILE | sha256sum`` prints the file's last value.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "replace"))
        yield part
    yield f' "sha256": "{digest.hexdigest()}"\n}}\n'


def read_seal(content: bytes) -> str:
    """Return the digest at the end of a file that ``append_seal`` wrote.

    Raises:
        ValueError: there is none, or the file has changed since.
    """
    seal = _SEAL.search(content)
    if seal is None:
        raise ValueError("its last line is not the digest that it was written with")
    written = seal[1].decode()
    if hashlib.sha256(content[: seal.start() + 1]).hexdigest() != written:
        raise ValueError("it has changed since it was written")
    return written


def explain_missing_file(path: Path, remedy: str = "; check its path") -> str:
    """Say why a path cannot be read as a file; empty if it can.

    ``remedy`` ends the message for a missing file unless a file of a similar name is there.
    """
    if path.is_dir():
        return "name a file: it is a folder"
    if path.is_file():
        return ""
    if path.exists():
        return "save it to a file first: it is a pipe or device, but is read more than once"
    if path.is_symlink():
        return "fix the link, or name another file: its target does not exist"
    alike = []
    for other in path.parent.glob("*"):
        if suggest(path.stem, [other.stem], 0.7):
            alike.append(other.name)
    return f"no such file{suggest(path.name, alike, 0.7) or remedy}"


@contextmanager
def explain_permission_errors() -> Iterator[None]:
    """Turn a missing permission on a file or its folders into a UserError that names it."""
    try:
        yield
    except PermissionError as fault:
        raise UserError(
            f"{fault.filename}: change its permissions, or name another path: {fault.strerror}"
        ) from None


def read_bytes(path: Path) -> bytes:
    """The content of a user's file, of at most ``LARGEST`` bytes."""
    try:
        if path.exists() and not path.is_file():
            # Opening a pipe waits until somebody writes into it.
            raise DataError(f"{path}: {explain_missing_file(path)}")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as fault:
        why = explain_missing_file(path) or f"cannot be read: {fault.strerror}"
        raise DataError(f"{path}: {why}") from None
    except ValueError as fault:  # a name that no file can have
        raise DataError(f"{str(path)!r}: cannot be read: {fault}") from None
    if len(content) > LARGEST:
        raise DataError(
            f"{path}: make it smaller: it has more than {LARGEST >> 20} MiB"
        )
    return content


def sha256(path: Path) -> str:
    """The SHA-256 digest of a file, without loading it into memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
