"""``refusal-checks baseline``: the run that later ones are compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_checks.core.errors import BaselineError
from refusal_checks.core.files import write_text
from refusal_checks.core.text import clean
from refusal_checks.gates import baseline


def add(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(no_args_is_help=True, help="The run that later ones are compared with.")
    group.callback()(_about)
    group.command()(accept)
    app.add_typer(group, name="baseline")


def _about() -> None:
    """The run that later ones are compared with."""


def accept(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its summary.json.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the baseline is kept.")],
) -> None:
    """Make a run the baseline: one JSON file a benchmark in DIR, without any text, for review.

    Benchmarks that the run did not evaluate keep the files that they have.
    """
    run = run.parent if run.name == "summary.json" else run
    summary = _complete(run)
    accepted = baseline.load(run)
    _require_whole(run, summary)
    for name, scores in accepted.items():
        write_text(folder / f"{name}.json", baseline.dump(scores))
        candidate = clean(scores.candidate)
        typer.echo(f"{folder / name}.json: {len(scores.prompts)} prompts of {candidate}")
    failed = [id for id, found in summary["verdicts"].items() if not found["passed"]]
    if failed:
        typer.echo(
            f"note: {len(failed)} gates failed in that run: {clean(', '.join(failed), 2000)}"
        )


def _complete(run: Path) -> dict[str, Any]:
    """The summary of a run that came to its end."""
    path = run / "summary.json"
    try:
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise BaselineError(
            f"{path}: cannot be read: {fault}; name the folder of a run that has ended, as the "
            "last line of its output does"
        ) from None
    if summary.get("failure"):
        raise BaselineError(f"{run}: this run did not come to its end: {summary['failure']}")
    return summary


def _require_whole(run: Path, summary: dict[str, Any]) -> None:
    for name, found in summary["benchmarks"].items():
        if found["prompts"] < found["planned"]:
            raise BaselineError(
                f"{run}: {name} was stopped early after {found['prompts']} of {found['planned']} "
                "prompts; a baseline needs all of them: run it without --stop-early"
            )
