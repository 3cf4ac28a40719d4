"""Inspect's logs: ``.eval`` archives, and JSON (inspect.aisi.org.uk, log format 2).

A sample's prompt is its last user message, its epochs are the prompt's samples. Answers are the
text parts of the output's choices, without reasoning, and all tool calls since the prompt. A sample
that ended in an error has no answer. Scores are labels by name:
``columns = { label = "scores.NAME.value" }``.
"""

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from lzma import LZMAError
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import WHOLE
from refusal_checks.core.errors import DataError
from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import brief
from refusal_checks.models.recordings.rows import Row, Rows

RATIO = 64
"""How many times its own size a large log may unpack to; Inspect's shrink to a twentieth."""

START, HEADER = "_journal/start.json", "header.json"
"""What a log begins with, and what is written once an evaluation has ended."""

BULK = ("attachments", "events", "events_data", "messages", "store")
"""Parts of a sample that contain no answers and take most of the space."""

ZSTANDARD = 93
"""The compression method that Inspect uses, which Python supports from 3.14 on."""


def rows_of_archive(path: Path, may_be_partial: bool) -> Rows:
    """The rows of an ``.eval`` file.

    Raises DataError for an unfinished or failed log, which may lack samples or epochs, unless it
    may be partial.
    """
    _require_success(path, _status(path), may_be_partial)
    return Rows(partial(_rows_of_archive, path))


def is_log(value: Any) -> bool:
    """True for a JSON file's content that is a log of Inspect's."""
    return isinstance(value, Mapping) and {"eval", "plan"} <= value.keys()


def rows_of_json(path: Path, log: Mapping[str, Any], may_be_partial: bool) -> list[Row]:
    """The rows of a log in JSON; DataError as of an ``.eval`` file."""
    _require_success(path, log.get("status"), may_be_partial)
    rows = list(_rows(path, log.get("samples") or []))
    return sorted(rows, key=lambda row: row.get("epoch", 1))


def _require_success(path: Path, status: Any, may_be_partial: bool) -> None:
    """Raise DataError unless an evaluation succeeded, or its log does not say how it ended."""
    if status in (None, "success") or may_be_partial:
        return
    raise DataError(
        f"{path}: finish the log with `inspect eval-retry` and name the new one, or "
        f"gate what it has with --set recording.partial=true: its status is {brief(status)}"
    )


def _status(path: Path) -> Any:
    """How the evaluation of an ``.eval`` file ended; None if it does not say so."""
    with _archive(path) as archive:
        names = archive.namelist()
        if HEADER not in names:
            return "started" if START in names else None
        header = archive.getinfo(HEADER)
        if header.file_size > WHOLE:
            raise ValueError(f"its {HEADER} is too large")
        facts = parse_json(_content(archive, header))
        return facts.get("status") if isinstance(facts, dict) else None


def _rows_of_archive(path: Path) -> Iterator[Row]:
    return _rows(path, _samples_of_archive(path))


def _rows(path: Path, samples: Iterable[Any]) -> Iterator[Row]:
    row = None
    for sample in samples:
        try:
            row = _row(sample)
        except (AttributeError, KeyError, TypeError, IndexError):
            raise DataError(f"{path}: a sample is not as Inspect writes it") from None
        yield row
    if row is None:
        raise DataError(
            f"{path}: no samples: was the log written with --no-log-samples?"
        )


def _samples_of_archive(path: Path) -> Iterator[Any]:
    with _archive(path) as archive:
        entries = [
            entry
            for entry in archive.infolist()
            if entry.filename.startswith("samples/")
        ]
        # Looked at before anything is unpacked: an archive may hold far more than its size.
        sizes = [entry.file_size for entry in entries]
        most = max(WHOLE, RATIO * path.stat().st_size)
        if sum(sizes) > most or max(sizes, default=0) > WHOLE:
            raise DataError(
                f"{path}: split the log: its samples unpack to more than {most >> 20} MiB, or "
                f"one of them to more than {WHOLE >> 20} MiB"
            )
        for entry in sorted(entries, key=_epoch):
            yield parse_json(_content(archive, entry), unique=True)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an ``.eval`` file; DataError if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror or fault}") from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        LZMAError,
        EOFError,
        ValueError,
        RuntimeError,  # it is encrypted, or packed in a way that is not known
    ) as fault:
        raise DataError(
            f"{path}: convert it with `inspect log convert --to json`: not an .eval file that can "
            f"be read: {fault}"
        ) from None


def _epoch(entry: zipfile.ZipInfo) -> int:
    number = re.search(r"_epoch_(\d{1,9})\.json$", entry.filename)
    return int(number[1]) if number else 1


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    try:
        return archive.read(entry)
    except NotImplementedError:
        if entry.compress_type != ZSTANDARD or archive.fp is None:
            raise
    # It takes long to import; the datasets library brings it.
    from pyarrow import input_stream

    # The content follows a header of 30 bytes, a name and a field, whose sizes end the header.
    archive.fp.seek(entry.header_offset + 26)
    archive.fp.seek(sum(struct.unpack("<HH", archive.fp.read(4))), 1)
    packed = archive.fp.read(entry.compress_size)
    with input_stream(BytesIO(packed), compression="zstd") as stream:
        content: bytes = stream.read(entry.file_size + 1)
    if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {entry.filename}")
    return content


def _row(sample: Mapping[str, Any]) -> Row:
    attachments = sample.get("attachments") or {}

    prompt = sample["input"]
    if isinstance(prompt, list):
        prompt = [turn["content"] for turn in prompt if turn["role"] == "user"][-1]

    answers: list[dict[str, Any]] = []
    reasons: list[str | None] = []
    if not sample.get("error"):
        output = sample.get("output") or {}
        for choice in output.get("choices") or []:
            message = choice["message"]
            answers.append(
                {
                    "content": _text(message["content"], attachments),
                    "reasoning": _reasoning(message["content"], attachments),
                    "tool_calls": _calls(sample, message, attachments),
                }
            )
            reasons.append(choice.get("stop_reason"))

    row = {name: value for name, value in sample.items() if name not in BULK}
    row["prompt"] = _text(prompt, attachments)
    row["completion"] = answers or None
    if set(reasons) - {None, "unknown"}:
        row["finish_reason"] = reasons
    return row


def _calls(
    sample: Mapping[str, Any], answer: Mapping[str, Any], attachments: Mapping[str, str]
) -> list[Any]:
    """The tool calls of an answer, and of the turns between the prompt and it."""
    calls: list[Any] = []
    for turn in sample.get("messages") or []:
        if turn.get("role") == "user":
            calls = []  # of an earlier exchange
        elif turn.get("role") == "assistant":
            calls += turn.get("tool_calls") or []
    whole = []
    for call in calls or answer.get("tool_calls") or []:
        arguments = call.get("arguments")
        if isinstance(arguments, Mapping):
            texts = {name: _long(arguments[name], attachments) for name in arguments}
            call = {**call, "arguments": texts}
        whole.append(call)
    return whole


def _long(value: Any, attachments: Mapping[str, str]) -> Any:
    """A value, or the long text that is kept apart under it."""
    if isinstance(value, str) and value.startswith("attachment://"):
        return attachments.get(value.removeprefix("attachment://"), value)
    return value


def _reasoning(content: Any, attachments: Mapping[str, str]) -> str:
    """The reasoning in a message: Inspect gives it parts of its own."""
    parts = content if isinstance(content, list) else []
    texts = [
        str(_long(part.get("reasoning"), attachments) or "")
        for part in parts
        if part.get("type") == "reasoning"
    ]
    return "\n".join(texts)


def _text(content: Any, attachments: Mapping[str, str]) -> str | None:
    """The text of a message: a string, or the text parts of a list."""
    if content is not None and not isinstance(content, str):
        parts = content if isinstance(content, list) else [content]
        texts = [
            str(part.get("text") or "") for part in parts if part.get("type") == "text"
        ]
        content = "\n".join(texts) or None
    text: str | None = _long(content, attachments)
    return text
