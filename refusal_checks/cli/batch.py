"""``refusal-checks batch``: very large runs through batch files, on an engine of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli import gate

_LIKE_A_RUN = {"allow_extra_args": True, "ignore_unknown_options": True}


def add(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, help="Run very large evaluations through OpenAI batch files."
    )
    group.command(context_settings=_LIKE_A_RUN)(export)
    group.command("import", context_settings=_LIKE_A_RUN)(import_)
    app.add_typer(group, name="batch")


def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write the requests to, as JSONL.")
    ],
) -> None:
    """Write all pending requests of a gate run to FILE: first for answers, later for verdicts.

    After FILE come models and options of `refusal-checks gate`: MODEL --judge JUDGE -k ...
    """
    _pytest("--batch-export", file, context)


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File with the results, as JSONL.")],
) -> None:
    """Store the results of a batch; once nothing is pending, a gate run can decide.

    After FILE come the options of the run. --batch-export NEXT also writes the requests that follow
    from these results; --batch-import MORE reads one more file.
    """
    _pytest("--batch-import", file, context)


def _pytest(option: str, file: Path, context: typer.Context) -> None:
    raise typer.Exit(gate.run([f"{option}={file}", *context.args]))
