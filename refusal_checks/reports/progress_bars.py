"""Progress of an evaluation as text: bars for a terminal, one line elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from refusal_checks.core.text import duration
from refusal_checks.results.events import Count, Progress

if TYPE_CHECKING:
    from rich.console import RenderableType


WINDOW = 60.0  # seconds over which speed is measured: answers from the store are soon forgotten

LEAST_SECONDS = 10.0
LEAST_SHARE = 0.05
"""Seconds and share of the prompts over which speed is measured before the time left is shown: the
first answers arrive late and together, so early estimates mislead."""

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
            self._samples.clear()  # another plan began
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
        if seconds <= 0:
            return None
        gained: int = getattr(last, name) - getattr(first, name)
        return gained / seconds

    def left(self, counts: Mapping[str, Count]) -> float | None:
        speed = self.rate("prompts")
        if not speed:
            return None
        first, last = self._samples[0], self._samples[-1]
        least = LEAST_SHARE * sum(count.planned for count in counts.values())
        if (
            last.seconds - first.seconds < LEAST_SECONDS
            or last.prompts - first.prompts < least
        ):
            return None
        open_counts = [count for count in counts.values() if not count.done]
        return sum(count.planned - count.judged for count in open_counts) / speed

    def words(self, counts: Mapping[str, Count]) -> Iterator[str]:
        answers, tokens, left = (
            self.rate("answers"),
            self.rate("tokens"),
            self.left(counts),
        )
        if counts and answers is not None:
            # A slow model gives less than one a second, which must not read as none.
            digits = ".0f" if answers >= 10 else ".2g"
            yield f"{answers:{digits}} answers/s"
        if tokens:
            yield f"{tokens:,.0f} tokens/s"
        if left is not None:
            yield f"about {duration(left)} left"


def is_active(progress: Progress) -> bool:
    counts = progress.benchmarks.values()
    return bool(progress.phase) or any(not count.done for count in counts)


def progress_line(progress: Progress, pace: Speed) -> str:
    counts = progress.benchmarks
    going = {name: count for name, count in counts.items() if not count.done}
    named = [
        f"{name} {count.judged}/{count.planned} judged" for name, count in going.items()
    ]
    invalid = sum(count.invalid for count in going.values())
    more = [f"{len(named) - NAMED} more benchmarks"] if len(named) > NAMED else []
    parts = [progress.phase, ", ".join(named[:NAMED] + more), *pace.words(counts)]
    if invalid:
        parts.append(f"{invalid} answers invalid")
    return "; ".join(filter(None, parts))


def progress_bars(progress: Progress, pace: Speed, height: int) -> RenderableType:
    """A bar per benchmark, unfinished first, and a line on the run, within ``height`` rows."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    parts = [progress.phase, *pace.words(progress.benchmarks)]
    last = Text("; ".join(filter(None, parts)), no_wrap=True, overflow="ellipsis")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(max_width=24)  # in a narrow terminal the bar gives way, and no word
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(no_wrap=True, overflow="ellipsis")
    counts = sorted(progress.benchmarks.items(), key=lambda item: item[1].done)
    most = max(1, min(height - 4, 12))
    for name, count in counts[:most]:
        done = "done" if count.done else f"{count.answered} answered"
        grid.add_row(
            Text(name),
            ProgressBar(total=max(count.planned, 1), completed=count.judged),
            Text(f"{count.judged}/{count.planned} judged, {done}"),
            Text(f"{count.invalid} invalid" if count.invalid else ""),
        )
    if len(counts) > most:
        grid.add_row(f"and {len(counts) - most} more")
    return Group(grid, last) if last else Group(grid)
