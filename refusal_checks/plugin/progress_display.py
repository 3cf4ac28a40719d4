"""Show an evaluation while pytest waits for it: bars on a terminal, else an occasional line.

Nothing else prints at that time: tests run after the evaluation.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.core.text import sanitize_lines
from refusal_checks.results.events import Event, Notice, Prepared, Progress

if TYPE_CHECKING:
    from refusal_checks.reports.progress import ProgressView

REFRESH = 0.5  # seconds between two updates of the bars
EVERY = 30.0  # seconds between two lines where there are no bars


class ProgressDisplay:
    """A listener for ``evaluate`` that shows events until it is stopped.

    It is silent with ``-q`` or without a terminal reporter.
    """

    def __init__(self, config: pytest.Config) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._reporter: Any = (
            reporter if reporter and config.option.verbose >= 0 else None
        )
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._view: ProgressView | None = None
        self._progress: Progress | None = None

    def show(self, event: Event) -> None:
        if self._reporter is None:
            return
        if isinstance(event, Notice):
            self._say(event.text)
        elif isinstance(event, Prepared):
            self._progress = event.progress
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

        line = sanitize_lines(text)
        with self._lock:
            if self._view is not None and self._view.bars.live.is_started:
                self._view.bars.console.print(Text(line), soft_wrap=True)
                return
            self._reporter.ensure_newline()
            self._reporter.write_line(line)
            self._reporter.flush()

    def _watch(self) -> None:
        from rich.console import Console

        from refusal_checks.reports.progress import ProgressView, is_active

        reporter = self._reporter
        draws = bool(reporter.isatty) and os.environ.get("TERM", "dumb") != "dumb"
        # pytest has no public way to its stream.
        console = Console(file=reporter._tw._file, no_color=not reporter.hasmarkup)
        view = self._view = ProgressView(console, draws)
        last_line = time.monotonic()
        with suppress(OSError):  # a run goes on without its terminal
            while not self._stopped.wait(min(REFRESH, EVERY)):
                progress = self._progress
                if progress is None or not is_active(progress):
                    self._hide()
                    continue
                with self._lock:
                    if draws and not view.bars.live.is_started:
                        reporter.ensure_newline()
                        reporter.flush()
                        view.bars.start()
                    view.update(progress)
                if not draws and time.monotonic() - last_line >= EVERY:
                    last_line = time.monotonic()
                    self._say(view.line)
            self._hide()

    def _hide(self) -> None:
        with self._lock:
            if self._view is not None and self._view.bars.live.is_started:
                self._view.bars.stop()
