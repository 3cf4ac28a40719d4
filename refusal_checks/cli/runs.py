"""``refusal-checks runs``: list, show and export the runs of a project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.core.errors import DataError, EvaluationError
from refusal_checks.core.text import clean, table
from refusal_checks.reports.terminal import footer
from refusal_checks.results import run_folder
from refusal_checks.results.board import Board
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder

Root = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="The folder that holds the runs.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help='A run: its id, its folder, or "last".')]
HEADER = ("run", "started", "candidate", "judge", "passed", "failed", "errors", "took")
_WIDTH = 40


def add(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, help="List, show and export the runs of this project."
    )
    group.command("list")(list_runs)
    group.command()(show)
    group.command()(export)
    app.add_typer(group, name="runs")


def list_runs(runs: Root = run_folder.ROOT) -> None:
    """List the runs, the oldest first, with their gates by outcome."""
    found = run_folder.all_runs(runs)
    if not found:
        typer.echo(f"{runs}: no runs found")
        return
    for line in table([HEADER, *(_row(run) for run in found)]):
        typer.echo(line)


def show(
    run: Run,
    runs: Root = run_folder.ROOT,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show groups too.")] = False,
) -> None:
    """Show the table that the terminal showed when a run ended."""
    found = run_folder.find(run, runs)
    for line in footer.ended_run(found.summary(), found.path, verbose):
        typer.echo(line)


def export(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ends in .jsonl or .parquet.")],
    runs: Root = run_folder.ROOT,
) -> None:
    """Write all answers and judgements of a run, one row per answer, with all texts."""
    from refusal_checks.results.export import write

    count = write(run_folder.find(run, runs), file)
    typer.echo(f"{file}: {count} answers")


def _row(run: RunFolder) -> Sequence[str]:
    """The cells of a run; it may not have ended, or its summary may not be readable."""
    name, started = run.path.name, f"{run.started:%Y-%m-%d %H:%M}"
    try:
        summary = run.summary()
    except DataError:
        why = "not readable" if run.summary_file.exists() else "not ended"
        return name, started, *_models(_provenance(run)), "", "", "", why
    known = summary.manifest
    passed = [verdict.passed for verdict in summary.verdicts.values()]
    return (
        name,
        started,
        *_models({"candidate": known.candidate, "judge": known.judge}),
        *map(str, (passed.count(True), passed.count(False), len(summary.errors))),
        f"{_took(known)}, stopped" if summary.failure else _took(known),
    )


def _models(known: Mapping[str, str]) -> Iterator[str]:
    return (clean(known.get(role) or "?", _WIDTH) for role in ("candidate", "judge"))


def _provenance(run: RunFolder) -> Mapping[str, str]:
    try:
        return Board(run.path).provenance()
    except (EvaluationError, OSError, ValueError):
        return {}


def _took(known: Manifest) -> str:
    """The duration of a run."""
    try:
        return str(datetime.fromisoformat(known.finished) - datetime.fromisoformat(known.started))
    except (TypeError, ValueError):
        return "?"
