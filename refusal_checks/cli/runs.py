"""``refusal-checks runs``: the runs of a project, listed and shown."""

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from refusal_checks.cli._common import (
    NAMED,
    AsJson,
    Redact,
    Root,
    add_group,
    echo,
    open_run,
)
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.layout import shorten_names, table
from refusal_checks.core.text import json_text, sanitize
from refusal_checks.reports import terminal
from refusal_checks.results import project, run_folder
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.wording.release import release_decision, summary_texts

HEADER = ("run", "answer", "passed", "candidate")
NO_RUNS = "no runs found"

_WIDTH = 24  # with the longest ids, answers and counts, lines have 79 characters


@dataclass(frozen=True)
class RunRow:
    """A run in the list.

    Attributes:
        started: ISO date and time.
        answer: the answer to "may it ship?", or ``unfinished``, ``damaged`` or ``not readable``.
        passed: number of gates that passed; None if unknown, like ``total``.
    """

    run: str
    started: str
    candidate: str = ""
    answer: str = "unfinished"
    passed: int | None = None
    total: int | None = None

    @property
    def gates(self) -> str:
        return "" if self.total is None else f"{self.passed} of {self.total}"


def add(app: typer.Typer) -> None:
    add_group(app, "runs", "The runs of this project.", {"list": list_runs})


def list_runs(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help=f"Show only this run: {NAMED}.")
    ] = None,
    *,
    runs: Root,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Show all remarks, statistics and groups of RUN."
        ),
    ] = False,
    as_json: AsJson = False,
    redact: Redact = False,
) -> None:
    """List the runs, the oldest first, with their answers; or show RUN.

    For RUN, prints what the terminal showed when it ended.
    """
    if run is not None:
        _show(open_run(run, runs, redact), verbose, as_json)
        return
    if verbose:
        raise UserError("runs list --verbose: name the run to show in detail")
    if not runs.is_dir() and runs != project.default_runs_folder():
        raise UserError(f"--runs {runs}: name the folder of the runs: {NO_RUNS}")
    rows = [_describe(folder) for folder in run_folder.list_runs(runs)]
    if as_json:
        echo(json_text([asdict(row) for row in rows]))
    elif not rows:
        echo(f"name the folder of the runs with --runs: {runs}: {NO_RUNS}")
    else:
        candidates = shorten_names(
            [sanitize(row.candidate or "?") for row in rows], _WIDTH
        )
        cells = [(row.run, row.answer, row.gates) for row in rows]
        lines = [(*each, name) for each, name in zip(cells, candidates, strict=True)]
        for line in table([HEADER, *lines]):
            echo(line)


def _show(run: RunFolder, verbose: bool, as_json: bool) -> None:
    summary = run.summary()
    if as_json:
        facts = {"run": run.path.absolute().name, "folder": str(run.path)}
        echo(
            json_text(facts | run_folder.dump_summary(summary, summary_texts(summary)))
        )
        return
    for line in terminal.lines(summary, run.path, terminal.usable_width(), verbose):
        echo(line)


def _describe(run: RunFolder) -> RunRow:
    """Describe a run, which may still be running or have an unreadable summary."""
    row = RunRow(run.path.name, run.started.isoformat())
    if run.summary_file.exists():
        try:
            summary = run.summary()
            # Only by size: a list must not read every file of every run.
            is_damaged = any(run.damage(by_size=True))
        except DataError:
            row = replace(row, answer="not readable")
        else:
            answer = release_decision(summary).headline.partition(",")[0].lower()
            return replace(
                row,
                candidate=summary.manifest.candidate,
                answer="damaged" if is_damaged else answer,
                passed=sum(verdict.passed for verdict in summary.verdicts.values()),
                total=len(summary.verdicts) + len(summary.errors),
            )
    with suppress(DataError):
        row = replace(row, candidate=run.stored_summary().manifest.candidate)
    return row
