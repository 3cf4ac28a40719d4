"""What a session shows while it evaluates: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from refusal_checks.core.text import clean_lines
from refusal_checks.reports.terminal import bars as report
from refusal_checks.reports.terminal.screen import Screen
from refusal_checks.results.progress import Progress

if TYPE_CHECKING:
    import pytest

REFRESH = 0.5
"""Seconds between two looks."""

EVERY = 30.0
"""Seconds between two lines where there is no terminal."""

Source = Callable[[], tuple[str, Progress] | None]
"""The run that is going on: its title and how far it has come; None where there is none."""


class Live:
    """Shows how far runs have come, from its first line until it is stopped.

    Quiet without a terminal reporter, which the workers of an xdist run lack too, and under ``-q``.
    """

    def __init__(self, config: pytest.Config, source: Source) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._screen = Screen(reporter) if reporter and config.option.verbose >= 0 else None
        self._colour = bool(reporter and reporter.hasmarkup)
        # What a test prints, or a debugger, moves the cursor and nobody knows where to.
        debugged = any(config.getoption(name, False) for name in ("usepdb", "trace"))
        printed = debugged or config.getoption("capture", "no") == "no"
        self._bars = not printed and os.environ.get("TERM", "dumb") != "dumb"
        self._source = source
        self._pace = report.Pace()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def say(self, line: str) -> None:
        """Show a line at once, whatever is being captured."""
        if self._screen is None:
            return
        if self._thread is None:
            self._screen.open()
            self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._thread.start()
        self._screen.say(clean_lines(line))

    def stop(self) -> None:
        """Show nothing any more; does nothing again."""
        self._stopped.set()
        if self._thread is not None and self._screen is not None:
            self._thread.join()
            with suppress(OSError):
                self._screen.close()

    def _watch(self) -> None:
        assert self._screen is not None, "there is a terminal"
        said = time.monotonic()
        with suppress(OSError):  # a terminal that is gone ends no run
            while not self._stopped.wait(min(REFRESH, EVERY)):
                found, now = self._source(), time.monotonic()
                if found:
                    self._pace.see(found[1], now)
                if self._bars and self._screen.isatty():
                    self._draw(self._screen, found)
                elif found and now - said >= EVERY and report.is_active(found[1]):
                    said = now
                    self._screen.say(report.line(*found, self._pace))

    def _draw(self, screen: Screen, found: tuple[str, Progress] | None) -> None:
        active = found is not None and report.is_active(found[1])
        lines = (
            report.bars(*found, self._pace, screen.size, self._colour) if active and found else []
        )
        screen.show(lines)
