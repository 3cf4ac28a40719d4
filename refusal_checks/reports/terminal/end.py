"""The end of a run's output: table, main remarks, paths of reports, answer.

With ``-v`` also models and settings; after an interruption, how to continue.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from refusal_checks.core.layout import wrapped
from refusal_checks.core.text import clean, count
from refusal_checks.reports import remarks
from refusal_checks.reports import rows as table_rows
from refusal_checks.reports.rows import Row
from refusal_checks.reports.terminal import remark_lines
from refusal_checks.reports.terminal.footer import footer
from refusal_checks.reports.terminal.gate_table import Line, table_lines
from refusal_checks.results import project
from refusal_checks.results.events import Progress
from refusal_checks.results.release import release_decision
from refusal_checks.results.summary import RunSummary

ROWS = 12
"""Above so many rows, the table folds passed gates on groups."""


def lines(
    run: RunSummary,
    folder: Path,
    width: int,
    verbosity: int = 0,
    reports: Iterable[str] = (),
) -> Iterator[Line]:
    """Everything that the terminal shows about an ended run, with the answer last."""
    for line in run.failure.splitlines():
        yield Line(clean(line, 1000))
    yield from _table(run, width, verbosity)
    for text in _remarks(run, folder, width, verbosity):
        yield Line(text)
    yield from _places(run, folder, list(reports))
    decision = release_decision(run)
    first, *further = decision.question_lines
    texts = wrapped(first, width)
    for reason in further:
        texts += [f"  {text}" for text in wrapped(reason, width - 2)]
    for text in texts:
        yield Line("", text, is_bold=True, colour=decision.answer)


def _table(run: RunSummary, width: int, verbosity: int) -> Iterator[Line]:
    """The table; if it is long, passed gates on groups are only counted."""
    rows = table_rows.rows(run, verbosity > 0)
    shown = rows
    if not verbosity and len(rows) > ROWS:
        shown = [row for row in rows if not _is_passed_group(row)]
    yield from table_lines(shown, width)
    folded = len(rows) - len(shown)
    if folded:
        yield Line(f"{count(folded, 'gate')} on groups passed too (shown with -v)")


def _is_passed_group(row: Row) -> bool:
    return not row.is_main and row.mark in ("pass", "pass?")


def _remarks(
    run: RunSummary, folder: Path, width: int, verbosity: int
) -> Iterator[str]:
    if not verbosity:
        yield from remark_lines.brief_lines(run, width)
        for text in remarks.of_judges(run):
            yield from remark_lines.fitted(text, width)
        return
    for text in remark_lines.full_lines(run):
        yield from remark_lines.fitted(text, width)
    yield from footer(run, folder, width)


def _places(run: RunSummary, folder: Path, reports: Sequence[str]) -> Iterator[Line]:
    """Paths of reports and run, and how to read the answers if no page was written."""
    for report in reports:
        yield Line(report)
    yield Line(f"run folder {folder}")
    has_page = any(report.startswith("html report") for report in reports)
    has_passed = all(verdict.passed for verdict in run.verdicts.values())
    if not has_page and not has_passed:
        name = shlex.quote(_run_name(folder))
        yield Line(f"to read the answers: refusal-checks report html {name}")


def _run_name(folder: Path) -> str:
    """A run as commands take it: its id if it can be found from here, else its folder."""
    is_usual = folder.absolute().parent == project.usual_root().absolute()
    return folder.name if is_usual else str(folder)


def unfinished(
    progress: Progress, summary: RunSummary, gates: int, fresh: bool
) -> Iterator[str]:
    """What an interrupted run has done and, if work is left, how to continue it.

    A ``fresh`` run would start over if its command were repeated unchanged.
    """
    counts = progress.benchmarks
    if all(done.done for done in counts.values()):
        return
    for name, done in counts.items():
        if done.done:
            yield f"{name}: complete, {done.judged} prompts"
        else:
            yield (
                f"{name}: {done.answered} of {done.planned} prompts answered, "
                f"{done.judged} judged"
            )
    yield f"{len(summary.verdicts)} of {count(gates, 'gate')} decided"
    again = "without --fresh" if fresh else "again"
    store = summary.manifest.store
    yield f"to continue, run the same command {again}: {store} holds the finished work"
