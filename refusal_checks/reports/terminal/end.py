"""The end of a run's output: the table, what matters most, where the reports are, the answer."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.text import clean, wrapped
from refusal_checks.reports import judges_asked
from refusal_checks.reports import rows as table_rows
from refusal_checks.reports.rows import Row
from refusal_checks.reports.terminal import footer, remarks
from refusal_checks.reports.terminal.table import Line
from refusal_checks.reports.terminal.table import lines as table
from refusal_checks.reports.words import count
from refusal_checks.results import runs_folder
from refusal_checks.results.shipping import Answer, shipping
from refusal_checks.results.summary import RunSummary

ROWS = 12
"""Most rows of the table before gates on groups that passed are folded."""

_MARKS: dict[Answer, str] = {
    "yes": "pass",
    "doubt": "warn?",
    "waived": "warn?",
    "open": "FAIL?",
    "no": "FAIL",
}
"""The outcome of a gate that has the colour of an answer."""

Runs = Sequence[tuple[RunSummary, Path]]
"""Runs that have ended, each with its folder."""


@dataclass(frozen=True)
class Screen:
    """How much is shown.

    Attributes:
        width: columns to fill.
        verbosity: how many ``-v`` were given.
    """

    width: int
    verbosity: int = 0


def lines(runs: Runs, screen: Screen, reports: Iterable[str] = ()) -> Iterator[Line]:
    """All that the terminal shows about runs that have ended, the answer last.

    Args:
        reports: where reports were written, a line each.
    """
    summaries = [summary for summary, _ in runs]
    names = [f"{name}: " if name else "" for name in table_rows.candidate_names(summaries)]
    named = list(zip(names, summaries, strict=True))
    for name, run in named:
        yield from (Line(name + clean(line, 1000)) for line in run.failure.splitlines())
    yield from _table(summaries, screen)
    if screen.verbosity:
        for name, run in named:
            for text in remarks.lines(run, screen.verbosity):
                yield from map(Line, remarks.fitted(name + text, screen.width))
        yield from map(Line, footer.footer(runs, screen.width))
    else:
        yield from map(Line, remarks.brief(named, screen.width))
        for text in judges_asked.scope(summaries):
            yield from map(Line, remarks.fitted(text, screen.width))
    written = list(reports)
    yield from map(Line, written)
    yield from (Line(f"run folder {folder}") for _, folder in runs)
    has_page = any(line.startswith("html report") for line in written)
    verdicts = [each for run in summaries for each in run.verdicts.values()]
    if not has_page and not all(each.passed for each in verdicts):
        yield Line(f"to read the answers: refusal-checks report html report.html {_named(runs)}")
    for name, run in named:
        yield from _answer(name, run, screen.width)


def _named(runs: Runs) -> str:
    """The runs as commands take them: their ids where these are known from here, else folders."""
    own = runs_folder.usual().absolute()
    return shlex.join(
        folder.name if folder.absolute().parent == own else str(folder) for _, folder in runs
    )


def _table(runs: Sequence[RunSummary], screen: Screen) -> Iterator[Line]:
    shown = table_rows.rows(runs, screen.verbosity > 0)
    folded: list[Row] = []
    if not screen.verbosity and len(shown) > ROWS:
        folded = [row for row in shown if not row.is_main and row.mark in ("pass", "pass?")]
        shown = [row for row in shown if row not in folded]
    yield from table(shown, screen.width)
    if folded:
        yield Line(f"{count(len(folded), 'gate')} on groups passed too (shown with -v)")


def _answer(name: str, run: RunSummary, width: int) -> Iterator[Line]:
    """May it ship? Bold, and in the colour of the answer."""
    found = shipping(run)
    colour = _MARKS[found.answer]
    for text in wrapped(f"{name}{found.question}", width):
        yield Line("", text, is_bold=True, colour=colour)
