"""``refusal-checks runs``: the runs of a project, listed and shown."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

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
from refusal_checks.core.layout import table
from refusal_checks.core.text import clean, json_text
from refusal_checks.reports import terminal
from refusal_checks.reports.wording.release import in_words
from refusal_checks.results import run_folder
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder

HEADER = (
    "run",
    "started",
    "candidate",
    "judge",
    "passed",
    "failed",
    "waived",
    "errors",
    "took",
)
NO_RUNS = "no runs found"

_WIDTH = 40

State = Literal["ended", "stopped", "unfinished", "damaged", "not readable"]


@dataclass(frozen=True)
class Listed:
    """A run in the list, with its number of gates by outcome; None if unknown."""

    run: str
    started: str
    candidate: str
    judge: str
    state: State
    passed: int | None = None
    failed: int | None = None
    waived: int | None = None
    errors: int | None = None
    seconds: float | None = None


def add(app: typer.Typer) -> None:
    add_group(app, "runs", "The runs of this project.", {"list": list_runs})


def list_runs(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help=f"Show only this run: {NAMED}.")
    ] = None,
    runs: Root = run_folder.ROOT,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Of RUN, show all remarks, statistics and groups."
        ),
    ] = False,
    as_json: AsJson = False,
    redact: Redact = False,
) -> None:
    """List the runs, the oldest first, with their gates by outcome; or show RUN.

    Of RUN, this is the table that the terminal showed when it ended.
    """
    if run is not None:
        _show(open_run(run, runs, redact), verbose, as_json)
        return
    if verbose:
        raise UserError("runs list --verbose: name a run, whose groups it shows")
    rows = [_listed(folder) for folder in run_folder.all_runs(runs)]
    if as_json:
        echo(json_text([asdict(row) for row in rows]))
    elif not rows:
        echo(f"name the folder of the runs with --runs: {runs}: {NO_RUNS}")
    else:
        for line in table([HEADER, *map(_cells, rows)]):
            echo(line)


def _show(run: RunFolder, verbose: bool, as_json: bool) -> None:
    summary = run.summary()
    if as_json:
        facts = {"run": run.path.absolute().name, "folder": str(run.path)}
        echo(json_text(facts | run_folder.dump_summary(summary, in_words(summary))))
        return
    for line in terminal.lines(summary, run.path, terminal.fitting(), verbose):
        echo(line)


def _listed(run: RunFolder) -> Listed:
    """List a run as far as it is known: it may not have ended, or its summary may be unreadable."""
    name, started = run.path.name, run.started.isoformat()
    state: State = "unfinished"
    if run.summary_file.exists():
        state = "not readable"
        with suppress(DataError):
            return _listed_ended(run)
    manifest = Manifest()
    with suppress(DataError):
        manifest = run.manifest()
    return Listed(name, started, manifest.candidate, manifest.judge, state)


def _listed_ended(run: RunFolder) -> Listed:
    summary = run.summary()
    state: State = "stopped" if summary.failure else "ended"
    # Only by size: a list must not read every file of every run.
    if any(run.damage(by_size=True)):
        state = "damaged"
    verdicts = summary.verdicts.values()
    return Listed(
        run.path.name,
        run.started.isoformat(),
        candidate=summary.manifest.candidate,
        judge=summary.manifest.judge,
        state=state,
        passed=sum(verdict.passed for verdict in verdicts),
        failed=sum(verdict.fails for verdict in verdicts),
        waived=sum(verdict.waived for verdict in verdicts),
        errors=len(summary.errors),
        seconds=_seconds(summary.manifest),
    )


def _seconds(manifest: Manifest) -> float | None:
    """Duration of a run; None if its manifest does not tell."""
    try:
        started = datetime.fromisoformat(manifest.started)
        finished = datetime.fromisoformat(manifest.finished)
        return (finished - started).total_seconds()
    except (TypeError, ValueError):
        return None


def _cells(run: Listed) -> Sequence[str]:
    started = f"{datetime.fromisoformat(run.started):%Y-%m-%d %H:%M}"
    candidate, judge = (
        clean(run.candidate or "?", _WIDTH),
        clean(run.judge or "?", _WIDTH),
    )
    about = (run.run, started, candidate, judge)
    if run.passed is None:
        return (*about, "", "", "", "", run.state)
    took = "?" if run.seconds is None else str(timedelta(seconds=run.seconds))
    if run.state != "ended":
        took += f", {run.state}"
    counts = (run.passed, run.failed, run.waived, run.errors)
    return (*about, *map(str, counts), took)
