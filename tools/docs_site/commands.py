"""The commands of ``refusal-checks``, each with the first sentence of its help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from refusal_checks.cli import application
from tools.docs_site.markdown import code, sentence, table


def leaves(
    command: Any = None, path: str = "refusal-checks"
) -> Iterator[tuple[str, Any]]:
    """Yield every command that is not a group, with its full name."""
    if command is None:
        command = typer.main.get_command(application())

    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield path, command
        return
    for name, subcommand in sorted(subcommands.items()):
        yield from leaves(subcommand, f"{path} {name}")


def reference() -> str:
    """List the commands with their arguments and what they do; ``--help`` has their options."""
    return table(
        ("command", "what it does"),
        [_row(path, command) for path, command in leaves()],
    )


def _row(path: str, command: Any) -> tuple[str, str]:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = re.sub(
        r"[{}]|(?<=\.\.\.})\.\.\.", "", command.get_usage(context).partition(": ")[2]
    )
    title = usage.removeprefix("refusal-checks ").replace(" [OPTIONS]", "")
    summary = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return code(title), sentence(summary)
