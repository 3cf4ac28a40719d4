"""The terminal that pytest writes to, shared with a region below its last line.

pytest captures what tests print by pointing standard output elsewhere while they run, which is when
there is most to tell. So both pytest's reporter and the region get a descriptor of their own, and
one writer: before the reporter writes, the region goes away.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from threading import RLock
from typing import Any, TextIO

_STYLES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Screen:
    """In the place of the file of pytest's reporter, from ``open`` until ``close``.

    Args:
        reporter: pytest's ``terminalreporter``.
    """

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter
        self._lock = RLock()
        self._replaced: TextIO | None = None
        self._file: TextIO | None = None
        self._line = ""
        self._shown: tuple[int, int] | None = None

    def open(self) -> None:
        """Take the reporter's file over; standard output must be the terminal at this moment.

        A file that is no descriptor, which nothing points elsewhere, is left alone.
        """
        file = self._reporter._tw._file
        try:
            number = os.dup(file.fileno())
        except (OSError, AttributeError):
            return
        file.flush()
        self._file = os.fdopen(number, "w", encoding=file.encoding, errors=file.errors)
        self._replaced, self._reporter._tw._file = file, self

    def close(self) -> None:
        """Give the reporter its file back; the region is gone then."""
        with self._lock:
            if self._file is None:
                return
            self.clear()
            self._file.close()
            self._reporter._tw._file = self._replaced
            self._file = None

    def say(self, line: str) -> None:
        """Show a line of its own at once."""
        with self._lock:
            self._reporter.ensure_newline()
            self._reporter.write_line(line)
            self._reporter.flush()

    def write(self, text: str) -> None:
        """What the reporter writes."""
        with self._lock:
            assert self._file, "it is open"
            assert self._replaced, "it is open"
            self._replaced.flush()  # what others printed meanwhile came first
            self.clear()
            self._file.write(text)
            self._line = re.split(r"[\n\r]", self._line + text)[-1]

    def flush(self) -> None:
        """Let everything be seen."""
        with self._lock:
            if self._file is not None:
                self._file.flush()

    def isatty(self) -> bool:
        """Whether a region can be shown."""
        return self._file is not None and self._file.isatty()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            return tuple(os.get_terminal_size(self._file.fileno() if self._file else 1))  # type: ignore[return-value]
        except OSError:
            return tuple(shutil.get_terminal_size())  # type: ignore[return-value]

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines below what pytest wrote, in the place of those that are there.

        Args:
            lines: each narrower than the terminal.
        """
        from rich.cells import cell_len

        with self._lock:
            if self._file is None:
                return
            self.clear()
            if lines:
                column = cell_len(_STYLES.sub("", self._line)) % self.size[0]
                self._file.write("\n" * bool(column) + "\n".join(lines))
                self._shown = len(lines), column
            self._file.flush()

    def clear(self) -> None:
        """Take the region away; the cursor is where pytest left it then."""
        if self._shown is None or self._file is None:
            return
        (height, column), self._shown = self._shown, None
        self._file.write("\r\x1b[2K" + "\x1b[1A\x1b[2K" * (height - 1))
        self._file.write(f"\x1b[1A\x1b[{column + 1}G" if column else "")
        self._file.flush()
