"""``refusal-checks runs``: the runs of a project, listed, shown and exported."""

from collections.abc import Sequence
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
from refusal_checks.core.text import clean, json_text
from refusal_checks.reports.terminal import end, gate_table
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
_WIDTH = 40

State = Literal["ended", "stopped", "not ended", "not readable"]


@dataclass(frozen=True)
class Listed:
    """A run in the list: its gates by outcome, None where they are not known."""

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
    about = "List, show and export the runs of this project."
    add_group(app, "runs", about, {"list": list_runs, "export": export})


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
        echo(f"name the folder of the runs with --runs: {runs}: no runs found")
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
    found = open_run(run, runs, redact)
    if found.summary_file.exists():  # it may not have ended
        found.summary()
    count = write_table(found, file)
    echo(f"{file}: {count} answers")


def _listed(run: RunFolder) -> Listed:
    """What is known of a run; it may not have ended, or its summary may not be readable."""
    about = run.path.name, run.started.isoformat()
    try:
        summary = run.summary()
    except DataError:
        known = Manifest()
        with suppress(DataError):
            known = run.manifest()
        state: State = "not readable" if run.summary_file.exists() else "not ended"
        return Listed(*about, known.candidate, known.judge, state)
    manifest, verdicts, seconds = summary.manifest, summary.verdicts.values(), None
    with suppress(TypeError, ValueError):
        ended, started = map(
            datetime.fromisoformat, (manifest.finished, manifest.started)
        )
        seconds = (ended - started).total_seconds()
    return Listed(
        *about,
        candidate=manifest.candidate,
        judge=manifest.judge,
        state="stopped" if summary.failure else "ended",
        passed=sum(verdict.passed for verdict in verdicts),
        failed=sum(verdict.fails for verdict in verdicts),
        waived=sum(verdict.waived for verdict in verdicts),
        errors=len(summary.errors),
        seconds=seconds,
    )


def _cells(run: Listed) -> Sequence[str]:
    started = f"{datetime.fromisoformat(run.started):%Y-%m-%d %H:%M}"
    models = (clean(name or "?", _WIDTH) for name in (run.candidate, run.judge))
    if run.passed is None:
        return run.run, started, *models, "", "", "", "", run.state
    took = "?" if run.seconds is None else str(timedelta(seconds=run.seconds))
    counts = map(str, (run.passed, run.failed, run.waived, run.errors))
    return (
        run.run,
        started,
        *models,
        *counts,
        took + ", stopped" * (run.state == "stopped"),
    )
