"""All that the terminal says of a run once it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from refusal_checks.reports.terminal import footer, table
from refusal_checks.results.summary import RunSummary


def lines(summary: RunSummary, folder: Path, verbose: bool) -> Iterator[str]:
    """The table, what it was found with, and where it is.

    Args:
        verbose: with all remarks, groups, and why the gates are what they are.
    """
    yield from map(str, table.lines([summary], verbose))
    yield from footer.lines([(summary, folder)])
