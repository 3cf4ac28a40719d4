"""``refusal-checks runs``: the runs that were made here, again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_checks.core.text import clean
from refusal_checks.reports.terminal import whole
from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import RunFolder

Root = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where the runs' folders are.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help='A run: its id, its folder, or "last".')]
HEADER = ("run", "started", "candidate", "judge", "passed", "failed", "errors", "took")
_WIDTH = 40


def add(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="The runs that were made here.")
    group.command("list")(list_runs)
    group.command()(show)
    group.command()(export)
    app.add_typer(group, name="runs")


def list_runs(runs: Root = run_folder.ROOT) -> None:
    """List the runs, the oldest first, with their gates by outcome."""
    found = run_folder.all_runs(runs)
    if not found:
        typer.echo(f"{runs}: no runs there")
        return
    for line in _aligned([HEADER, *(_row(run) for run in found)]):
        typer.echo(line)


def show(
    run: Run,
    runs: Root = run_folder.ROOT,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Groups too.")] = False,
) -> None:
    """Show a run's table again, as the terminal did when it ended."""
    found = run_folder.find(run, runs)
    for line in whole.lines(found.summary(), found.path, verbose):
        typer.echo(line)


def export(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ends in .jsonl or .parquet.")],
    runs: Root = run_folder.ROOT,
) -> None:
    """Write all answers of a run with their judgements, one row an answer; holds all texts."""
    from refusal_checks.results.export import write

    count = write(run_folder.find(run, runs), file)
    typer.echo(f"{file}: {count} answers")


def _row(run: RunFolder) -> Sequence[str]:
    """What is known of a run; its summary may be missing, or of another version."""
    summary, name = _read(run.path / "summary.json"), run.path.name
    manifest = _mapping(summary.get("manifest")) or _read(run.path / "provenance.json")
    models = (clean(str(manifest.get(which, "?")), _WIDTH) for which in ("candidate", "judge"))
    gates = _gates(summary) if summary else ("", "", "")
    return name, f"{run_folder.started(run):%Y-%m-%d %H:%M}", *models, *gates, _took(summary)


def _read(path: Path) -> dict[str, Any]:
    try:
        return _mapping(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}


def _mapping(found: Any) -> dict[str, Any]:
    """What is a JSON object; an empty one in place of anything else."""
    return found if isinstance(found, dict) else {}


def _gates(summary: dict[str, Any]) -> tuple[str, str, str]:
    verdicts, errors = _mapping(summary.get("verdicts")), _mapping(summary.get("errors"))
    passed = [bool(_mapping(found).get("passed")) for found in verdicts.values()]
    return str(passed.count(True)), str(passed.count(False)), str(len(errors))


def _took(summary: dict[str, Any]) -> str:
    """How long a run took; of one that has not ended, or was stopped, that."""
    if not summary:
        return "not ended"
    manifest = _mapping(summary.get("manifest"))
    try:
        ends = [datetime.fromisoformat(manifest[name]) for name in ("started", "finished")]
        took = ends[1] - ends[0]
    except (KeyError, TypeError, ValueError):
        return "?"
    return f"{took}, stopped" if summary.get("failure") else str(took)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
