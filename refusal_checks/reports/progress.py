"""How far an evaluation has come: bars on a terminal, one line elsewhere.

rich draws the bars and measures speed. Its import takes a while, so only runs import this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Column

from refusal_checks.core.text import format_duration, sanitize
from refusal_checks.results.events import BenchmarkProgress, Progress

WINDOW = 60.0  # seconds over which speed is measured: answers from the store are soon forgotten

LEAST_SECONDS = 10.0
LEAST_SHARE = 0.05
"""Seconds and share of prompts before the time left is shown: the first answers arrive late and
together, so early estimates would mislead."""

NAMED = 3  # most benchmarks named in a line


class ProgressView:
    """Bars, and a line with the same counts; ``draws`` says whether bars are shown."""

    def __init__(
        self, console: Console, draws: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.bars = Bars(
            TextColumn("{task.description}", markup=False, table_column=_column()),
            BarColumn(24),
            TextColumn("{task.fields[said]}", markup=False, table_column=_column()),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,  # its thread would draw into the output of tests
            speed_estimate_period=WINDOW,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=clock,
            disable=not draws,
        )
        self._run = self.bars.add_task("run", said="")
        self._answers = self.bars.add_task("", total=None, visible=False, said="")
        self._tokens = self.bars.add_task("", total=None, visible=False, said="")
        self._rows: dict[str, TaskID] = {}
        self._progress = Progress()

    def update(self, progress: Progress) -> None:
        """Update the counts and draw them."""
        self._progress = progress
        counts = progress.benchmarks
        for name, count in counts.items():
            if name not in self._rows:
                self._rows[name] = self.bars.add_task(sanitize(name, 60), said="")
            said = "; ".join(_count_parts(count))
            self._set(self._rows[name], count.judged, count.planned, said=said)
        for name, row in self._rows.items():
            is_shown = name in counts and not counts[name].done
            self.bars.update(row, visible=is_shown)
        self._set(self._answers, sum(count.answers for count in counts.values()))
        # Tasks that are never shown: rich measures their speed as it does that of bars.
        self._set(self._tokens, progress.tokens())
        judged = sum(count.judged for count in counts.values())
        planned = sum(count.planned for count in counts.values())
        self._set(self._run, judged, planned)
        said = "; ".join(filter(None, [progress.phase, *self._speed()]))
        self.bars.update(self._run, said=said, refresh=True)

    def _set(
        self, task: TaskID, done: int, total: int | None = None, said: str = ""
    ) -> None:
        if done < self.bars.tasks[task].completed:
            self.bars.reset(task)  # another plan began
        self.bars.update(task, completed=done, total=total, said=said)

    def _speed(self) -> Iterator[str]:
        answers = self.bars.tasks[self._answers].speed
        if answers:
            # A slow model gives less than one a second, which must not read as none.
            digits = ".0f" if answers >= 10 else ".2g"
            yield f"{answers:{digits}} answers/s"
        tokens = self.bars.tasks[self._tokens].speed
        if tokens:
            yield f"{tokens:,.0f} tokens/s"
        run = self.bars.tasks[self._run]
        is_early = run.completed < LEAST_SHARE * (run.total or 0)
        if not is_early and (run.elapsed or 0) >= LEAST_SECONDS and run.time_remaining:
            yield f"about {format_duration(run.time_remaining)} left"

    @property
    def line(self) -> str:
        """The same in one line."""
        going = {
            name: count
            for name, count in self._progress.benchmarks.items()
            if not count.done
        }
        named = [
            f"{sanitize(name, 60)} {'; '.join(_count_parts(count))}"
            for name, count in [*going.items()][:NAMED]
        ]
        if len(going) > NAMED:
            named.append(f"{len(going) - NAMED} more benchmarks")
        parts = [self._progress.phase, ", ".join(named), *self._speed()]
        return "; ".join(filter(None, parts))


def is_active(progress: Progress) -> bool:
    counts = progress.benchmarks.values()
    return bool(progress.phase) or any(not count.done for count in counts)


def _column() -> Column:
    return Column(no_wrap=True, overflow="ellipsis")


def _count_parts(count: BenchmarkProgress) -> Iterator[str]:
    """What is done and, until answers arrive, how many were requested."""
    yield f"{count.judged}/{count.planned} judged"
    if count.answered > count.judged:
        yield f"{count.answered} answered"
    if count.begun > count.answered:
        yield f"{count.begun - count.answered} in flight"
    if count.invalid:
        yield f"{count.invalid} answers invalid"
