"""The progress of a run: a line of words for logs, bars for terminals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from refusal_checks.core.text import duration
from refusal_checks.results.progress import Count, Progress

if TYPE_CHECKING:
    from rich.console import RenderableType

WINDOW = 60.0
"""Seconds over which speed is measured, so that answers from the store are soon forgotten."""

LEAST_SECONDS = 10.0
LEAST_SHARE = 0.05
"""For how long, and over what share of the prompts, speed is measured before the time left is told:
the first answers come late and together, so that the first figures mislead."""

NAMED = 3
"""Most benchmarks named in a line."""

BAR = 24
"""Columns of a bar."""


class _Sample(NamedTuple):
    seconds: float
    answers: int
    prompts: int
    tokens: int


class Pace:
    """How fast answers are judged, and the time left at that speed."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def see(self, progress: Progress, now: float) -> None:
        """Record the progress at a moment.

        Args:
            now: seconds of a monotonic clock.
        """
        counts = list(progress.benchmarks.values())
        answers = sum(count.answers for count in counts)
        if self._samples and answers < self._samples[-1].answers:
            self._samples.clear()  # another plan began: repeats, or the next candidate
        prompts = sum(count.judged for count in counts)
        if len(self._samples) == 1 and prompts == self._samples[0].prompts:
            self._samples.clear()  # nothing is judged yet: an engine's first answers take longest
        self._samples.append(_Sample(now, answers, prompts, progress.tokens()))
        while now - self._samples[0].seconds > WINDOW:
            self._samples.popleft()

    def rate(self, name: Literal["answers", "prompts", "tokens"]) -> float | None:
        """How many are judged or generated per second; None while unknown."""
        if not self._samples:
            return None
        first, last = self._samples[0], self._samples[-1]
        seconds = last.seconds - first.seconds
        return (getattr(last, name) - getattr(first, name)) / seconds if seconds > 0 else None

    def left(self, counts: Mapping[str, Count]) -> float | None:
        """Seconds until all is judged; None while that would mean nothing."""
        if not self._samples:
            return None
        first, last = self._samples[0], self._samples[-1]
        planned = sum(count.planned for count in counts.values())
        if (
            last.seconds - first.seconds < LEAST_SECONDS
            or last.prompts - first.prompts < LEAST_SHARE * planned
        ):
            return None
        speed = self.rate("prompts")
        rest = sum(count.planned - count.judged for count in counts.values() if not count.done)
        return rest / speed if speed else None


def is_active(progress: Progress) -> bool:
    """True if there is something to show."""
    counts = progress.benchmarks.values()
    return bool(progress.phase) or any(not count.done for count in counts)


def line(title: str, progress: Progress, pace: Pace) -> str:
    """The progress in one line.

    Args:
        title: of the run; empty if there is only one.
    """
    counts = progress.benchmarks
    named = [
        f"{name} {count.judged}/{count.planned} judged"
        for name, count in counts.items()
        if not count.done
    ]
    more = [f"{len(named) - NAMED} more benchmarks"] if len(named) > NAMED else []
    parts = [progress.phase, ", ".join(named[:NAMED] + more), *_speed(counts, pace)]
    text = "; ".join(filter(None, parts))
    return f"{title}: {text}" if title else text


def _speed(counts: Mapping[str, Count], pace: Pace) -> Iterator[str]:
    answers, tokens, left = pace.rate("answers"), pace.rate("tokens"), pace.left(counts)
    if counts and answers is not None:
        yield f"{answers:.0f} answers/s"
    if tokens:
        yield f"{tokens:,.0f} tokens/s"
    if left is not None:
        yield f"about {duration(left)} left"


def bars(title: str, progress: Progress, pace: Pace, height: int) -> RenderableType:
    """A bar per benchmark, unfinished ones first, above a line on the run.

    Args:
        height: rows of the terminal.
    """
    from rich.console import Group
    from rich.text import Text

    parts = [title, progress.phase, *_speed(progress.benchmarks, pace)]
    last = Text("; ".join(filter(None, parts)), no_wrap=True, overflow="ellipsis")
    return Group(_grid(progress, max(1, min(height - 4, 12))), *[last] * bool(last))


def _grid(progress: Progress, most: int) -> RenderableType:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for overflow in ("ellipsis", "crop", "ellipsis", "ellipsis"):
        grid.add_column(no_wrap=True, overflow=overflow)
    counts = sorted(progress.benchmarks.items(), key=lambda item: item[1].done)
    for name, count in counts[:most]:
        grid.add_row(*_row(name, count))
    if len(counts) > most:
        grid.add_row(f"and {len(counts) - most} more")
    return grid


def _row(name: str, count: Count) -> Iterator[RenderableType]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    yield Text(name)
    yield ProgressBar(total=max(count.planned, 1), completed=count.judged, width=BAR)
    done = "done" if count.done else f"{count.answered} answered"
    yield Text(f"{count.judged}/{count.planned} judged, {done}")
    yield Text(f"{count.invalid} invalid" if count.invalid else "")
