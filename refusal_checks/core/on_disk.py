"""Answers of large runs: their texts wait on the disk until somebody looks at them."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import astuple
from functools import cache

from refusal_checks.core.records import Completion

IN_MEMORY = 64 * 2**20
"""Characters of a recording's or a run's answers in memory; further answers are on the disk."""


class OnDisk(Completion):
    """A completion whose text, which can be encoded, is read each time that it is looked at."""

    __slots__ = ("_place",)
    _place: tuple[int, int]  # in the file: offset and size, in bytes

    @property
    def text(self) -> str:
        offset, size = self._place
        return os.pread(_file(), size, offset).decode()

    @text.setter
    def text(self, text: str) -> None:
        content, offset = text.encode(), os.lseek(_file(), 0, os.SEEK_END)
        if os.pwrite(_file(), content, offset) < len(content):
            raise OSError("no space left")
        object.__setattr__(self, "_place", (offset, len(content)))


@cache
def _file() -> int:
    """A file without a name; its space is free when the process has ended."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Texts:
    """Counts the answers that are held, and puts the texts of further ones on the disk."""

    def __init__(self) -> None:
        self._held = 0

    def keep(self, answer: Completion) -> Completion:
        if isinstance(answer, OnDisk):
            return answer
        if self._held + len(answer.text) > IN_MEMORY:
            with suppress(OSError):  # no room there
                return OnDisk(*astuple(answer))
        self._held += len(answer.text)
        return answer
