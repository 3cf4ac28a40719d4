"""``refusal-checks doctor``: check that a gate run can work on this machine."""

from __future__ import annotations

import os
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import AsJson, Root
from refusal_checks.core.text import json_text
from refusal_checks.engines import kinds
from refusal_checks.gates import toml_file
from refusal_checks.results import run_folder
from refusal_checks.run import doctor as machine
from refusal_checks.run.doctor import Finding, Level, Plan
from refusal_checks.run.options.placement import choose_engine

STORE = Path(".refusal-checks") / "store.sqlite"
THRESHOLDS = Path("thresholds") / "default.toml"


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    candidate: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The model under test, as in a gate run.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="A judge, as in a gate run (repeatable)."),
    ] = None,
    thresholds: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Check the data of this threshold file's benchmarks (repeatable).",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Mirror of public data; $REFUSAL_CHECKS_DATA.")
    ] = None,
    store: Annotated[Path, typer.Option(metavar="FILE", help="Stored answers.")] = STORE,
    runs: Root = run_folder.ROOT,
    engine: Annotated[str, typer.Option(help="As in a gate run.")] = kinds.AUTO,
    engine_command: Annotated[str, typer.Option(help="As in a gate run.")] = "",
    as_json: AsJson = False,
) -> None:
    """Check this machine, its data and the named models before a gate run; starts no engine.

    Each line begins with OK, WARN or FAIL and says what to do. Exits with 1 if any line is FAIL.
    """
    usual = [THRESHOLDS] if THRESHOLDS.is_file() else [toml_file.DEFAULT] if candidate else []
    files = [toml_file.find(path) for path in thresholds or usual]
    chosen = choose_engine(engine, engine_command)
    plan = Plan(candidate, judge or (), files, store, data, *chosen)
    found = []
    for finding in chain(machine.examine(plan), [_runs(runs)]):
        found.append(finding)
        if not as_json:
            echo(finding)
    if as_json:
        echo(json_text([asdict(finding) for finding in found]))
    if any(finding.level is Level.FAIL for finding in found):
        raise typer.Exit(1)


def _runs(folder: Path) -> Finding:
    """Whether runs can be written into their folder, which need not exist."""
    whole = folder.absolute()
    place = next(path for path in (whole, *whole.parents) if os.path.exists(path))  # noqa: PTH110
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        said = (
            f"name a folder that can be written with --runs, in gate runs too: {folder} cannot be"
        )
        return Finding(Level.FAIL, "runs", said)
    count = len(run_folder.all_runs(folder))
    return Finding(
        Level.OK, "runs", f"{folder}: {count} so far" if count else f"{folder}: none yet"
    )
