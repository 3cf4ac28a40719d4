"""``refusal-checks watch``: gone; the page of ``--html`` shows a run while it goes on."""

from __future__ import annotations

import typer

from refusal_checks.core.errors import UserError

INSTEAD = (
    "write --html FILE and open it in a browser: the page follows the run, and becomes its report"
)


def add(app: typer.Typer) -> None:
    """Add the command."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(hidden=True, context_settings=anything)(watch)


def watch() -> None:
    """Say what to use instead."""
    raise UserError(f"watch: {INSTEAD}")
