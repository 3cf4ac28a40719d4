"""The command ``refusal-checks``: everything around a gate run. The gate itself runs in pytest.

Every module of this package whose name has no leading underscore defines ``add(app: typer.Typer) ->
None``, which adds its commands; a new command is one new module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated

import typer

from refusal_checks import __version__
from refusal_checks.core.errors import RefusalChecksError, UserError, reason
from refusal_checks.core.text import clean_lines

EXIT_USER = 4
"""Exit code for wrong input, the same as pytest's for usage errors."""


def application() -> typer.Typer:
    """The command with all its subcommands."""
    app = typer.Typer(
        name="refusal-checks",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_about)
    for module in iter_modules(__path__):
        if not module.name.startswith("_"):
            import_module(f"{__name__}.{module.name}").add(app)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"refusal-checks {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Tools around the release gate on refusal behaviour; the gate itself runs in pytest."""


def main() -> None:
    """Run the command; an error is one message on stderr, with exit code 4 for wrong input."""
    try:
        application()(prog_name="refusal-checks")
    except (RefusalChecksError, OSError) as fault:
        print(f"refusal-checks: {clean_lines(reason(fault))}", file=sys.stderr)
        sys.exit(EXIT_USER if isinstance(fault, UserError) else 1)
