"""The progress of a session: bars on a terminal, a line now and then elsewhere.

pytest redirects standard output while a test runs, which is when there is most to show. So progress
is written to a duplicate of standard output, and hidden while pytest's reporter writes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

import pytest

from refusal_checks.core.text import clean_lines, duration
from refusal_checks.results.progress import Count, Progress

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live as Region


REFRESH = 0.5  # seconds between two updates of the bars
EVERY = 30.0  # seconds between two lines where there are no bars

Source = Callable[[], tuple[str, Progress] | None]
"""Returns the title and progress of the current run, None without one."""


class Live:
    """Shows the progress of runs, from its first line until it is stopped.

    Silent under ``-q``, and without a terminal reporter, which workers lack too.
    """

    def __init__(self, config: pytest.Config, source: Source) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._reporter: Any = reporter if reporter and config.option.verbose >= 0 else None
        self._config = config
        self._source = source
        self._pace = Speed()
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: TextIO | None = None
        self._region: Region | None = None
        self._column = 0

    def say(self, line: str) -> None:
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
                if current is None or not is_active(current[1]):
                    with self._hidden():
                        continue
                self._pace.see(current[1], now)
                if has_bars:
                    self._draw(*current)
                elif now - last_line >= EVERY:
                    last_line = now
                    self._write(progress_line(*current, self._pace))

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
        renderable = progress_bars(title, progress, self._pace, height)
        with self._lock:
            if self._region is None:
                self._file.write("\n" * bool(self._column))
                self._region = Region(
                    console=Console(file=self._file, no_color=not self._reporter.hasmarkup),
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


WINDOW = 60.0  # seconds over which speed is measured: answers from the store are soon forgotten

LEAST_SECONDS = 10.0
LEAST_SHARE = 0.05
"""For how long, and over what share of the prompts, speed is measured before the time left is told:
the first answers come late and together, so that the first figures mislead."""

NAMED = 3  # most benchmarks named in a line


class _Sample(NamedTuple):
    seconds: float
    answers: int
    prompts: int
    tokens: int


class Speed:
    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def see(self, progress: Progress, now: float) -> None:
        counts = list(progress.benchmarks.values())
        answers = sum(count.answers for count in counts)
        if self._samples and answers < self._samples[-1].answers:
            self._samples.clear()  # another plan began, that of the next candidate
        prompts = sum(count.judged for count in counts)
        if len(self._samples) == 1 and prompts == self._samples[0].prompts:
            self._samples.clear()  # nothing is judged yet: an engine's first answers take longest
        self._samples.append(_Sample(now, answers, prompts, progress.tokens()))
        while now - self._samples[0].seconds > WINDOW:
            self._samples.popleft()

    def rate(self, name: Literal["answers", "prompts", "tokens"]) -> float | None:
        if not self._samples:
            return None
        first, last = self._samples[0], self._samples[-1]
        seconds = last.seconds - first.seconds
        return (getattr(last, name) - getattr(first, name)) / seconds if seconds > 0 else None

    def left(self, counts: Mapping[str, Count]) -> float | None:
        speed = self.rate("prompts")
        if not speed:
            return None
        first, last = self._samples[0], self._samples[-1]
        least = LEAST_SHARE * sum(count.planned for count in counts.values())
        if last.seconds - first.seconds < LEAST_SECONDS or last.prompts - first.prompts < least:
            return None
        return (
            sum(count.planned - count.judged for count in counts.values() if not count.done) / speed
        )

    def words(self, counts: Mapping[str, Count]) -> Iterator[str]:
        answers, tokens, left = self.rate("answers"), self.rate("tokens"), self.left(counts)
        if counts and answers is not None:
            yield f"{answers:.0f} answers/s"
        if tokens:
            yield f"{tokens:,.0f} tokens/s"
        if left is not None:
            yield f"about {duration(left)} left"


def is_active(progress: Progress) -> bool:
    counts = progress.benchmarks.values()
    return bool(progress.phase) or any(not count.done for count in counts)


def progress_line(title: str, progress: Progress, pace: Speed) -> str:
    counts = progress.benchmarks
    going = {name: count for name, count in counts.items() if not count.done}
    named = [f"{name} {count.judged}/{count.planned} judged" for name, count in going.items()]
    invalid = sum(count.invalid for count in going.values())
    more = [f"{len(named) - NAMED} more benchmarks"] if len(named) > NAMED else []
    parts = [progress.phase, ", ".join(named[:NAMED] + more), *pace.words(counts)]
    parts += [f"{invalid} answers invalid"] * bool(invalid)
    text = "; ".join(filter(None, parts))
    return f"{title}: {text}" if title else text


def progress_bars(title: str, progress: Progress, pace: Speed, height: int) -> RenderableType:
    """A bar per benchmark, unfinished ones first, above a line on the run, in ``height`` rows."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    parts = [title, progress.phase, *pace.words(progress.benchmarks)]
    last = Text("; ".join(filter(None, parts)), no_wrap=True, overflow="ellipsis")
    grid = Table.grid(padding=(0, 2))
    for overflow in ("ellipsis", "crop", "ellipsis", "ellipsis"):
        grid.add_column(no_wrap=True, overflow=overflow)
    counts = sorted(progress.benchmarks.items(), key=lambda item: item[1].done)
    most = max(1, min(height - 4, 12))
    for name, count in counts[:most]:
        done = "done" if count.done else f"{count.answered} answered"
        grid.add_row(
            Text(name),
            ProgressBar(total=max(count.planned, 1), completed=count.judged, width=24),
            Text(f"{count.judged}/{count.planned} judged, {done}"),
            Text(f"{count.invalid} invalid" if count.invalid else ""),
        )
    if len(counts) > most:
        grid.add_row(f"and {len(counts) - most} more")
    return Group(grid, *[last] * bool(last))
