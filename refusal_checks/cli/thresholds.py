"""``refusal-checks thresholds``: proposals for threshold files."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Annotated

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import EACH_RUN, Root
from refusal_checks.gates import baseline
from refusal_checks.gates.suggest import as_toml
from refusal_checks.gates.suggest import suggest as proposals
from refusal_checks.results import run_folder


def add(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(no_args_is_help=True, help="Proposals for threshold files.")
    group.callback()(_about)
    group.command()(suggest)
    app.add_typer(group, name="thresholds")


def _about() -> None:
    """Proposals for threshold files."""


def suggest(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help=f"{EACH_RUN}; or accepted baselines.")
    ],
    root: Root = run_folder.ROOT,
) -> None:
    """Print gates that reference runs pass: the loosest bound of their intervals.

    Safety benchmarks get a lower bound on the rejection rate, sanity benchmarks an upper one,
    rated and multiple-choice ones a lower bound on their score, and all an upper bound on the
    share of invalid answers.
    """
    loaded = [baseline.load(run_folder.locate(run, root)) for run in runs]
    command = f"refusal-checks thresholds suggest {shlex.join(runs)}"
    today = datetime.now(UTC).date().isoformat()
    echo(as_toml(proposals(loaded), loaded, command, today).rstrip("\n"))
