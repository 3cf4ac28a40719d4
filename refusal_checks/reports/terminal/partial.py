"""What a run that was broken off has done, and how to go on from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from refusal_checks.results.progress import Count, Progress
from refusal_checks.results.summary import RunSummary


def lines(
    progress: Progress, summary: RunSummary, gates: int, store: Path, fresh: bool
) -> Iterator[str]:
    """A line a benchmark, one on the gates, and the way to go on; nothing of a complete run.

    Args:
        gates: how many the run was to decide.
        store: holds what is done.
        fresh: whether that store is this run's own.
    """
    counts = progress.benchmarks
    if not counts or all(count.done for count in counts.values()):
        return
    for name, count in counts.items():
        yield f"{name}: {_done(count)}"
    decided = len(summary.verdicts)
    yield f"{decided} of {gates} gate{'s' * (gates != 1)} decided"
    if fresh:
        yield f"to go on from here, run the same command with --store {store} instead of --fresh"
    else:
        yield f"run the same command again to go on from here: {store} holds what is done"


def _done(count: Count) -> str:
    if count.done:
        return f"complete, {count.judged} prompts"
    return f"{count.answered} of {count.planned} prompts answered, {count.judged} judged"
