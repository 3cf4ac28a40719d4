"""What the commands print: harmless lines, whatever the files say that they show."""

from __future__ import annotations

import typer

from refusal_checks.core.text import visible


def echo(text: object, *, err: bool = False) -> None:
    """Print lines with nothing that acts on a terminal or in a CI system's log."""
    for line in str(text).split("\n"):
        typer.echo(visible(line), err=err)
