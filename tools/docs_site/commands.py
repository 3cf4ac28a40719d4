"""The commands of ``refusal-checks``, with the arguments and options that each declares."""

from __future__ import annotations

import inspect
import re
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


def leaves(
    command: Any = None, path: str = "refusal-checks"
) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its whole name."""
    command = typer.main.get_command(application()) if command is None else command
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, found in sorted((inner or {}).items()):
        yield from leaves(found, f"{path} {name}")


def reference() -> str:
    """A section for each command."""
    return "\n\n".join(_section(path, command) for path, command in leaves())


def _section(path: str, command: Any) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = re.sub(
        r"[{}]|(?<=\.\.\.})\.\.\.", "", command.get_usage(context).partition(": ")[2]
    )
    records = [
        p.get_help_record(context)
        for p in command.params
        if p.param_type_name == "option"
    ]
    rows = [
        (code(_named(names)), sentence(text)) for names, text in filter(None, records)
    ]
    parts = [
        f"## {path}",
        inspect.cleandoc(command.help or ""),
        f"```text\n{usage}\n```",
    ]
    return "\n\n".join(
        [*parts, *([table(("option", "meaning"), rows)] if rows else [])]
    )


def _named(names: str) -> str:
    """An option with its placeholder, worded as those of the other options are."""
    for kind, word in _KINDS.items():
        names = names.replace(f"<{kind}>", word)
    return re.sub(r"<(.*)>", r"\1", names)
