"""Show an evaluation while pytest waits for it: bars on a terminal, else an occasional line.

Nothing else writes meanwhile: tests run after the evaluation.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.core.text import clean_lines
from refusal_checks.reports.progress_bars import (
    Speed,
    is_active,
    progress_bars,
    progress_line,
)
from refusal_checks.results.events import Event, Notice, Prepared, Underway

if TYPE_CHECKING:
    from rich.live import Live as Region

REFRESH = 0.5  # seconds between two updates of the bars
EVERY = 30.0  # seconds between two lines where there are no bars


class Live:
    """A listener for ``evaluate`` that shows events until it is stopped.

    Silent under ``-q``, and without a terminal reporter.
    """

    def __init__(self, config: pytest.Config) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._reporter: Any = (
            reporter if reporter and config.option.verbose >= 0 else None
        )
        self._pace = Speed()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._region: Region | None = None
        self._run: Underway | None = None

    def see(self, event: Event) -> None:
        if self._reporter is None:
            return
        if isinstance(event, Notice):
            self._say(event.text)
        elif isinstance(event, Prepared):
            self._run = event.run
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="progress", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Stop showing events. Does nothing if called again."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _say(self, text: str) -> None:
        from rich.text import Text

        line = clean_lines(text)
        with self._lock:
            if self._region is not None:
                self._region.console.print(Text(line), soft_wrap=True)
                return
            self._reporter.ensure_newline()
            self._reporter.write_line(line)
            self._reporter.flush()

    def _watch(self) -> None:
        has_bars = self._draws()
        last_line = time.monotonic()
        with suppress(OSError):  # a run goes on without its terminal
            while not self._stopped.wait(min(REFRESH, EVERY)):
                now, run = time.monotonic(), self._run
                if run is None or not is_active(run.progress):
                    self._hide()
                    continue
                self._pace.see(run.progress, now)
                if has_bars:
                    self._draw(run)
                elif now - last_line >= EVERY:
                    last_line = now
                    self._say(progress_line(run.progress, self._pace))
            self._hide()

    def _draws(self) -> bool:
        is_terminal = self._reporter.isatty
        return bool(is_terminal) and os.environ.get("TERM", "dumb") != "dumb"

    def _draw(self, run: Underway) -> None:
        from rich.console import Console
        from rich.live import Live as Region

        with self._lock:
            if self._region is None:
                self._reporter.ensure_newline()
                self._reporter.flush()
                writer = self._reporter._tw  # pytest has no public way to its stream
                console = Console(
                    file=writer._file, no_color=not self._reporter.hasmarkup
                )
                self._region = Region(
                    console=console,
                    auto_refresh=False,
                    transient=True,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._region.start()
            height = self._region.console.size.height
            bars = progress_bars(run.progress, self._pace, height)
            self._region.update(bars, refresh=True)

    def _hide(self) -> None:
        with self._lock:
            if self._region is not None:
                self._region.stop()
                self._region = None
