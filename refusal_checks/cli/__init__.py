"""The command ``refusal-checks``: what is done around a gate run. The gate itself is pytest.

Each module here that defines ``add(app: typer.Typer) -> None`` adds its commands; nothing else is
edited.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

import typer

from refusal_checks.core.errors import RefusalChecksError, UserError, reason
from refusal_checks.core.text import clean_lines

EXIT_USER = 4
"""Exit code where something that the user gave is wrong, as pytest's own for usage errors."""


def application() -> typer.Typer:
    """The command with all of its subcommands."""
    app = typer.Typer(
        name="refusal-checks",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_about)
    for found in iter_modules(__path__):
        import_module(f"{__name__}.{found.name}").add(app)
    return app


def _about() -> None:
    """Around the release gate on refusal behaviour; the gate itself is run by pytest."""


def main() -> None:
    """Run the command; errors are one message on stderr, and exit code 4 where the user's."""
    try:
        application()(prog_name="refusal-checks")
    except (RefusalChecksError, OSError) as fault:
        print(f"refusal-checks: {clean_lines(reason(fault))}", file=sys.stderr)
        sys.exit(EXIT_USER if isinstance(fault, UserError) else 1)
