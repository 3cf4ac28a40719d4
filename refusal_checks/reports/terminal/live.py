"""The progress of a session: bars on a terminal, a line now and then elsewhere.

pytest redirects standard output while a test runs, which is when there is most to show. So progress
is written to a duplicate of standard output, and hidden while pytest's reporter writes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from refusal_checks.core.text import clean_lines
from refusal_checks.reports.terminal import bars
from refusal_checks.results.progress import Progress

if TYPE_CHECKING:
    from rich.live import Live as Region

REFRESH = 0.5
"""Seconds between two updates of the bars."""

EVERY = 30.0
"""Seconds between two lines where there are no bars."""

Source = Callable[[], tuple[str, Progress] | None]
"""Returns the title and progress of the current run, None without one."""


class Live:
    """Shows the progress of runs, from its first line until it is stopped.

    Silent under ``-q``, and without a terminal reporter, which workers of an xdist run lack too.
    """

    def __init__(self, config: pytest.Config, source: Source) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._reporter: Any = reporter if reporter and config.option.verbose >= 0 else None
        self._config = config
        self._source = source
        self._pace = bars.Pace()
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: TextIO | None = None
        self._region: Region | None = None
        self._column = 0

    def say(self, line: str) -> None:
        """Show a line at once, whatever is being captured."""
        if self._reporter is None:
            return
        if self._thread is None:
            self._start()
        self._write(clean_lines(line))

    def stop(self) -> None:
        """Show nothing any more. Does nothing when called again."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            with suppress(OSError), self._hidden():
                if self._file is not None:
                    self._file.close()
                    self._file = None

    @pytest.hookimpl(wrapper=True, tryfirst=True, optionalhook=True)
    def _make_room(self) -> Generator[None, Any, Any]:
        """Hide the bars while pytest's reporter writes, then see where it left the cursor."""
        with self._hidden():
            result = yield
            self._reporter.flush()
            self._column = self._config.get_terminal_writer().width_of_current_line
            return result

    pytest_runtest_logstart = pytest_runtest_logreport = pytest_runtest_logfinish = _make_room
    pytest_testnodedown = pytest_internalerror = _make_room

    def _start(self) -> None:
        """Begin; standard output must not be captured at this moment."""
        sys.stdout.flush()
        # What is no file, as under pytester, is not redirected either: the reporter writes to it.
        with suppress(OSError, ValueError):
            number = os.dup(sys.stdout.fileno())
            self._file = os.fdopen(
                number, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors
            )
        self._config.pluginmanager.register(self)
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        has_bars = self._file is not None and self._file.isatty() and _may_draw(self._config)
        last_line = time.monotonic()
        with suppress(OSError):  # a run goes on without its terminal
            while not self._stopped.wait(min(REFRESH, EVERY)):
                current, now = self._source(), time.monotonic()
                if current is None or not bars.is_active(current[1]):
                    with self._hidden():
                        continue
                self._pace.see(current[1], now)
                if has_bars:
                    self._draw(*current)
                elif now - last_line >= EVERY:
                    last_line = now
                    self._write(bars.line(*current, self._pace))

    def _write(self, line: str) -> None:
        with self._hidden():
            if self._file is None:
                self._reporter.ensure_newline()
                self._reporter.write_line(line)
                self._reporter.flush()
            else:
                self._file.write("\n" * bool(self._column) + line + "\n")
                self._file.flush()
                self._column = 0

    def _draw(self, title: str, progress: Progress) -> None:
        from rich.console import Console, ConsoleDimensions
        from rich.live import Live as Region

        assert self._file is not None, "only a terminal has bars"
        width, height = os.get_terminal_size(self._file.fileno())
        renderable = bars.bars(title, progress, self._pace, height)
        with self._lock:
            if self._region is None:
                self._file.write("\n" * bool(self._column))
                console = Console(file=self._file, no_color=not self._reporter.hasmarkup)
                self._region = Region(
                    console=console,
                    auto_refresh=False,
                    transient=True,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._region.start()
            self._region.console.size = ConsoleDimensions(width - 1, height)
            self._region.update(renderable, refresh=True)

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """Nothing below the line that pytest wrote last, and the cursor at its end."""
        from rich.control import Control

        with self._lock:
            self._reporter.flush()
            if self._region is not None:
                region, self._region = self._region, None
                region.stop()
                if self._column:
                    region.console.control(Control.move_to_column(self._column, -1))
            yield


def _may_draw(config: pytest.Config) -> bool:
    """True if only pytest's reporter moves the cursor: no test, debugger or live log does."""
    options = ("usepdb", "trace", "setupshow", "log_cli_level")
    is_printed = config.getoption("capture", "no") == "no" or any(
        config.getoption(name, None) for name in options
    )
    with suppress(ValueError):  # without pytest's logging plugin
        is_printed = is_printed or bool(config.getini("log_cli"))
    return not is_printed and os.environ.get("TERM", "dumb") != "dumb"
