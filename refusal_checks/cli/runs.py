"""``refusal-checks runs``: the runs of a project, listed, shown and exported."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer

from refusal_checks.cli._common import (
    NAMED,
    AsJson,
    Redact,
    Root,
    Run,
    add_group,
    echo,
    open_run,
    require_target,
)
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.layout import table
from refusal_checks.core.text import clean, count, json_text
from refusal_checks.reports.terminal import end, gate_table
from refusal_checks.results import run_folder, verification
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
    about = "List, show, verify and export the runs of this project."
    commands: Mapping[str, Callable[..., None]] = {
        "list": list_runs,
        "verify": verify,
        "export": export,
    }
    add_group(app, "runs", about, commands)


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
        echo(json_text(facts | run_folder.dump_summary(summary)))
        return
    for line in end.lines([(summary, run.path)], gate_table.fitting(), verbose):
        echo(str(line))


def export(
    run: Run,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Ends in .jsonl or .parquet.")
    ],
    runs: Root = run_folder.ROOT,
    redact: Redact = False,
) -> None:
    """Write all answers and judgements of a run, one row per answer, with all texts."""
    from refusal_checks.results.export import write_table

    require_target(file, runs, "runs export", [file, run])
    folder = open_run(run, runs, redact)
    answers = write_table(folder, file)
    unfinished = " of an unfinished run" if folder.is_unfinished else ""
    echo(f"{file}: {answers} answers{unfinished}")


def verify(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help=f"Only this run: {NAMED}; default: all."),
    ] = None,
    runs: Root = run_folder.ROOT,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A baseline that should have been accepted from RUN."
        ),
    ] = None,
) -> None:
    """Check that runs are as they were written, and that their figures follow from their records.

    Names every file that is missing, cut, changed or added. Commands that read a run check its
    files, too, and stop at the first.
    """
    if baseline and run is None:
        raise UserError(
            "runs verify --baseline: name the run that it was accepted from"
        )
    folders = run_folder.all_runs(runs)
    if run is not None:
        folders = [RunFolder.of(run_folder.locate(run, runs))]
    if not folders:
        raise DataError(f"name the folder of the runs with --runs: {runs}: {NO_RUNS}")
    is_whole = True
    for folder in folders:
        faults = list(verification.faults(folder, baseline))
        for fault in faults:
            echo(f"WRONG {folder.path.name}: {fault}", err=True)
        if faults:
            is_whole = False
        else:
            files = count(len(folder.files()), "file")
            also = " so far: the run is unfinished" if folder.is_unfinished else ""
            echo(f"OK    {folder.path.name}: {files} and the summary{also}")
    if not is_whole:
        raise DataError(
            "restore these files from a copy, or repeat the runs: nothing reads runs with damage"
        )


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
