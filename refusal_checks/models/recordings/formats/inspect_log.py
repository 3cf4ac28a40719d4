"""Inspect's logs, as ``.eval`` files and as JSON (inspect.aisi.org.uk, log format 2).

A sample's prompt is its last user message, its epochs are the prompt's samples. Answers are the
text parts of the output's choices; reasoning is left out. A sample that ended in an error has no
answer. Scores are labels by name: ``--replay-columns label=scores.NAME.value``.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from lzma import LZMAError
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.json_text import parse
from refusal_checks.models.recordings.document import Document, Row, words

_MOST = 4 * 2**30
"""Bytes that the samples of a log may hold."""

_ATTACHED = "attachment://"

_DAMAGED = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, ValueError, RuntimeError)
"""What reading a damaged archive raises; RuntimeError if it is encrypted or packed otherwise."""


def rows(document: Document) -> list[Row] | None:
    """The samples of a log; None if the document is none.

    Raises:
        DataError: it is one, but damaged, or without samples.
    """
    samples = _samples(document)
    if samples is None:
        return None
    if not samples:
        raise DataError(f"{document.path}: no samples: was the log written with --no-log-samples?")
    try:
        return [_row(sample) for sample in sorted(samples, key=lambda one: one.get("epoch", 1))]
    except (AttributeError, KeyError, TypeError, IndexError):
        raise DataError(f"{document.path}: a sample is not as Inspect writes it") from None


def _samples(document: Document) -> list[Any] | None:
    if document.path.suffix == ".eval":
        return list(_unpacked(document.path))
    if document.path.suffix != ".json" or not isinstance(document.value, Mapping):
        return None
    if not {"eval", "plan"} <= set(document.value):
        return None
    return document.list_of("samples") or []


def _unpacked(path: Path) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [one for one in archive.infolist() if one.filename.startswith("samples/")]
            if sum(entry.file_size for entry in entries) > _MOST:
                raise DataError(f"{path}: its samples hold more than {_MOST >> 30} GiB")
            for entry in entries:
                yield parse(archive.read(entry))
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror or fault}") from None
    except _DAMAGED as fault:
        raise DataError(
            f"{path}: convert it with `inspect log convert --to json`: not an .eval file that can "
            f"be read: {fault}"
        ) from None


def _row(sample: Mapping[str, Any]) -> Row:
    attached = sample.get("attachments") or {}

    def whole(content: Any) -> str | None:
        """The text; a long one may be kept apart, under its key."""
        found = words(content)
        if found and found.startswith(_ATTACHED):
            return attached.get(found.removeprefix(_ATTACHED), found)  # type: ignore[no-any-return]
        return found

    asked = sample["input"]
    if isinstance(asked, list):
        asked = [turn["content"] for turn in asked if turn["role"] == "user"][-1]
    choices = [] if sample.get("error") else (sample.get("output") or {}).get("choices") or []
    answers = [whole(choice["message"]["content"]) for choice in choices]
    return {**sample, "prompt": whole(asked), "completion": answers or None}
