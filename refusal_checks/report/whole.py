"""All that the terminal says of a run once it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from refusal_checks.report import terminal, tokens
from refusal_checks.report.summary import RunSummary
from refusal_checks.report.text import clean


def lines(summary: RunSummary, folder: Path, verbose: bool) -> Iterator[str]:
    """The table, what it was found with, and where it is.

    Args:
        verbose: with all remarks, groups, and why the gates are what they are.
    """
    yield from terminal.table(summary, len(summary.verdicts) if verbose else 20)
    if verbose:
        yield from terminal.groups(summary)
        yield from terminal.provenance(summary)
    judges = list(summary.manifest.get("models", {}).get("judges", {}))
    named = f"judge{'s' if len(judges) > 1 else ''} {', '.join(judges)}"
    yield clean(f"candidate {summary.manifest.get('candidate')}, {named}", 1000)
    yield from tokens.lines(summary.manifest)
    yield from terminal.disagreements(summary, folder)
    yield f"run folder {folder}"
