"""Writes files so that readers see them whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

_NAME = re.compile(r"\w(?:[\w .+-]{0,98}[\w+-])?")


def is_file_name(name: str) -> bool:
    """True if a file of this name lies in its folder, on any system and whoever chose the name."""
    return _NAME.fullmatch(name) is not None


FILE_NAME = "1 to 100 letters, digits and _ . + - or spaces within"
"""What ``is_file_name`` asks for."""


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.writelines(pieces)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)  # gives its space back to a disk that may be full
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8."""
    write_lines(path, [text])


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write the lines of a text file as they come, each with its line feed."""
    _write(path, (line.encode("utf-8", "replace") for line in lines))


def write_json(path: Path, value: object) -> None:
    """Write indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False))
