"""The commands of ``refusal-checks``, with their arguments and options."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import typer

from refusal_checks.cli import application
from tools.docs_site.markdown import code, sentence, table

_KINDS = {
    "list[str]": "TEXT",
    "str": "TEXT",
    "list[Path]": "FILE",
    "path": "FILE",
    "int range": "N",
    "int": "N",
    "float": "X",
}

SHARED = 3
"""An option that this many commands declare in the same words is described once."""


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
    """Describe the options that several commands share, then each command in a section."""
    commands = list(leaves())
    counts = Counter(row for _, command in commands for row in _options(command))
    shared = [row for row, count in counts.items() if count >= SHARED]

    parts = ["Options that several commands share:", _table(shared)]
    parts += [_section(path, command, shared) for path, command in commands]
    return "\n\n".join(parts)


def _section(path: str, command: Any, shared: list[tuple[str, str]]) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = re.sub(
        r"[{}]|(?<=\.\.\.})\.\.\.", "", command.get_usage(context).partition(": ")[2]
    )
    title = usage.removeprefix("refusal-checks ").replace(" [OPTIONS]", "")
    parts = [f"## {title}", inspect.cleandoc(command.help or "")]

    options = _options(command)
    own = [row for row in options if row not in shared]
    if own:
        parts.append(_table(own))

    # `--runs DIR` in the code of the row becomes `--runs`.
    others = [code(row[0].strip("`").split()[0]) for row in options if row in shared]
    if others:
        parts.append(f"It {'also ' if own else ''}takes {', '.join(others)}.")
    return "\n\n".join(parts)


def _options(command: Any) -> list[tuple[str, str]]:
    """Name and meaning of each option that is not hidden."""
    context = command.make_context("", [], resilient_parsing=True)
    rows = []
    for parameter in command.params:
        record = None
        if parameter.param_type_name == "option":
            record = parameter.get_help_record(context)
        if record:
            names, meaning = record
            rows.append((code(_named(names)), sentence(meaning)))
    return rows


def _table(rows: list[tuple[str, str]]) -> str:
    return table(("option", "meaning"), rows)


def _named(names: str) -> str:
    """An option with its placeholder, worded like those of a gate run."""
    for kind, word in _KINDS.items():
        names = names.replace(f"<{kind}>", word)
    return re.sub(r"<(.*)>", r"\1", names)
