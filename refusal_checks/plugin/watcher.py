"""The page of ``--watch``, in a process of its own, so that nothing of it can hold up the run."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from refusal_checks.core.text import clean

_PROGRAM = "from refusal_checks.cli import main; main()"

PATIENCE = 20.0
"""Seconds that the process may take to start."""

FAREWELL = 8.0
"""Seconds that it may take to end after the run: an open page fetches how the run ended."""


class Watcher:
    """A process that serves the page about some runs.

    Attributes:
        line: the page's address for the user, or why there is no page.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, "watch", *map(str, folders)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends the run, and the page with it
        )
        self.line = self._first_line()

    def _first_line(self) -> str:
        output = self._process.stdout
        assert output, "a pipe"
        if not select.select([output], [], [], PATIENCE)[0]:
            self.close()
            return "watch: the page did not start; try `refusal-checks watch` in another terminal"
        return clean(output.readline().decode("utf-8", "replace"), 500)

    def close(self) -> None:
        """Let an open page see the end, and stop the process."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(FAREWELL)
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
