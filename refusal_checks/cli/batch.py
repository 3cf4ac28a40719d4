"""``refusal-checks batch``: very large runs through batch files, on an engine of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_LIKE_A_RUN = {"allow_extra_args": True, "ignore_unknown_options": True}


def add(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, help="Very large runs through OpenAI batch files, for any engine."
    )
    group.command(context_settings=_LIKE_A_RUN)(export)
    group.command("import", context_settings=_LIKE_A_RUN)(import_)
    app.add_typer(group, name="batch")


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Takes the requests, as JSONL.")],
) -> None:
    """Write all pending requests of a gate run to FILE: answers first, verdicts the next time.

    What follows FILE are the options of the run, as pytest takes them: --candidate, --judge, -k ...
    """
    _pytest("--batch-export", file, context)


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The results, as JSONL.")],
) -> None:
    """Store the results of a batch; the gates can be decided once nothing is pending.

    What follows FILE are the options of the run. With --batch-export NEXT the requests that these
    results lead to are written at once; --batch-import MORE takes a further file.
    """
    _pytest("--batch-import", file, context)


def _pytest(option: str, file: Path, context: typer.Context) -> None:
    """The gate itself, told to do this instead."""
    import pytest

    raise typer.Exit(pytest.main([option, str(file), *context.args]))
