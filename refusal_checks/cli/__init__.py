"""The command ``refusal-checks``: everything around a gate run. The gate itself runs in pytest.

Every module of this package whose name has no leading underscore, and an extension with commands,
defines ``add(app: typer.Typer) -> None``, which adds them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Annotated, cast

import typer

from refusal_checks import __version__
from refusal_checks.cli._echo import echo
from refusal_checks.core import extensions
from refusal_checks.core.errors import RefusalChecksError, UserError, reason
from refusal_checks.core.text import clean_lines

EXIT_USER = 4
"""Exit code for wrong input, the same as pytest's for usage errors."""

# Any mistake in a command line; it has no public name in typer.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


def application() -> typer.Typer:
    """The command with all its subcommands."""
    app = typer.Typer(
        name="refusal-checks",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_about)
    names = extensions.Names("commands")
    for one in extensions.providers(__name__, __path__, "add"):
        before = len(app.registered_commands), len(app.registered_groups)
        with extensions.blamed(one):
            one.module.add(app)
        for name in _added(app, *before):
            names.add(name, one.origin)
    return app


def _added(app: typer.Typer, commands: int, groups: int) -> Iterator[str]:
    """The names of the commands added since these counts of commands and groups."""
    for command in app.registered_commands[commands:]:
        name = str(command.name or getattr(command.callback, "__name__", ""))
        yield name.lower().replace("_", "-")
    yield from (str(group.name) for group in app.registered_groups[groups:])


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"refusal-checks {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    thresholds: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Load the extensions of this threshold file (repeatable)."
        ),
    ] = None,
) -> None:
    """Tools around the release gate on refusal behaviour; the gate itself runs in pytest."""
    if thresholds:
        from refusal_checks.gates.thresholds import load_extensions

        load_extensions(thresholds)


def _load_named(words: Sequence[str]) -> None:
    """Load the extensions of threshold files that any command is given: they may add commands.

    What is wrong with such a file is said by the command that reads it.
    """
    found = [value for word, value in pairwise(words) if word == "--thresholds"]
    found += [word.partition("=")[2] for word in words if word.startswith("--thresholds=")]
    for name in found:
        from refusal_checks.gates.thresholds import load_extensions

        with suppress(UserError):
            load_extensions([Path(name)])


def main() -> None:
    """Run the command; an error is one message on stderr, with exit code 4 for wrong input."""
    try:
        _load_named(sys.argv[1:])
        for fault in extensions.faults():
            print(f"refusal-checks: {clean_lines(fault)}", file=sys.stderr)
        sys.exit(_called())
    except (RefusalChecksError, OSError) as fault:
        print(f"refusal-checks: {clean_lines(reason(fault))}", file=sys.stderr)
        sys.exit(EXIT_USER if isinstance(fault, UserError) else 1)


def _called() -> int:
    try:
        ended = application()(prog_name="refusal-checks", standalone_mode=False)
    except typer.Abort:
        print("refusal-checks: stopped", file=sys.stderr)
        return 1
    except _UsageError as fault:
        if said := fault.format_message():  # without any words, the help has been shown
            usage = f"\n{fault.ctx.get_usage()}" if fault.ctx else ""
            print(f"refusal-checks: {clean_lines(f'{said}{usage}')}", file=sys.stderr)
        return EXIT_USER
    return ended if isinstance(ended, int) else 0
