"""Keep the texts of a large run's answers on disk until they are read."""

import os
import tempfile
from contextlib import suppress
from dataclasses import astuple
from functools import cache
from threading import Lock

from refusal_checks.core.records import Completion

IN_MEMORY = 64 * 2**20
"""Characters of a recording's or a run's answers in memory; further answers are on the disk."""

_WRITING = Lock()  # one thread evaluates while another redacts what a page shows


class OnDisk(Completion):
    """A completion whose text is read from disk at each use."""

    __slots__ = ("_place",)
    # where the file has it: offset and size in bytes; the text itself if the disk had no room
    _place: tuple[int, int] | str

    @property
    def text(self) -> str:
        if isinstance(self._place, str):
            return self._place
        offset, size = self._place
        return os.pread(_file(), size, offset).decode("utf-8", "surrogatepass")

    @text.setter
    def text(self, text: str) -> None:
        content = text.encode("utf-8", "surrogatepass")
        place: tuple[int, int] | str = text  # unless the disk has room
        with suppress(OSError), _WRITING:
            offset = os.lseek(_file(), 0, os.SEEK_END)
            if os.pwrite(_file(), content, offset) == len(content):
                place = offset, len(content)
        object.__setattr__(self, "_place", place)


@cache
def _file() -> int:
    """Open a file without a name, whose space is freed when the process ends."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Texts:
    """Keep answers in memory up to a limit, and the texts of further ones on disk."""

    def __init__(self) -> None:
        self._in_memory = 0

    def keep(self, answer: Completion) -> Completion:
        if isinstance(answer, OnDisk):
            return answer
        self._in_memory += len(answer.text)
        if self._in_memory > IN_MEMORY:
            return OnDisk(*astuple(answer))
        return answer
