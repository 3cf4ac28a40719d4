"""The command ``refusal-checks``: tools around a gate run, which itself runs in pytest.

Every module of this package without a leading underscore defines ``add(app: typer.Typer) -> None``
to add its commands.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, cast

import typer

from refusal_checks import __version__
from refusal_checks.cli._common import echo
from refusal_checks.config import variables
from refusal_checks.core.errors import RefusalChecksError, UserError, reason
from refusal_checks.core.text import sanitize_lines
from refusal_checks.io import extensions

EXIT_USER = 4
"""Exit code for wrong input, the same as pytest's for usage errors."""

# Any mistake in a command line; it has no public name in typer.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


def application() -> typer.Typer:
    app = typer.Typer(
        name="refusal-checks",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        # Paragraphs fit the terminal; without it, lines break where the code breaks them.
        rich_markup_mode="markdown",
    )
    app.callback()(_about)
    for module in iter_modules(__path__):
        if not module.name.startswith("_"):
            import_module(f"{__name__}.{module.name}").add(app)
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        echo(f"refusal-checks {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
    thresholds: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Load the extensions of this run file (repeatable)."
        ),
    ] = None,
) -> None:
    """Tools around the release gate on refusal behaviour; the gate itself runs in pytest."""
    if thresholds:
        from refusal_checks.config.benchmark_tables import load_extensions

        load_extensions(thresholds)


def main() -> None:
    """Run the command. An error is one message on stderr; wrong input gives exit code 4."""
    try:
        variables.require_known()
        for fault in extensions.faults():
            _complain(fault)
        ended = application()(prog_name="refusal-checks", standalone_mode=False)
        sys.exit(ended if isinstance(ended, int) else 0)
    except typer.Abort:
        _complain("stopped")
        sys.exit(130)
    except _UsageError as mistake:
        text = mistake.format_message()
        if text:  # without any, the help has been shown
            _complain(_explain_mistake(text, mistake))
        sys.exit(EXIT_USER)
    except (RefusalChecksError, OSError) as error:
        _complain(reason(error))
        sys.exit(EXIT_USER if isinstance(error, UserError) else 1)


_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)")


def _explain_mistake(text: str, mistake: typer.BadParameter) -> str:
    """Make typer's message say what to write instead."""
    context = mistake.ctx
    if context is None:
        # Only --of takes two values; typer says so without naming them.
        return text.replace("requires 2 arguments", "needs a number: --of refusals 20")
    extra = _EXTRA.fullmatch(text)
    commands = getattr(context.command, "commands", ())
    parameter = getattr(mistake, "param", None)  # what is missing may be a command
    if extra:
        text = f"leave out {extra[1]}, or put its option before it (--help lists the options)."
    elif commands and "Did you mean" not in text:
        text += f" Known: {', '.join(commands)}."
    about = getattr(parameter, "help", "")
    if text.startswith("Missing") and about:
        text += f" {about}"
    return f"{text.replace('Value error, ', '')}\n{context.get_usage()}"


def _complain(text: str) -> None:
    print(f"refusal-checks: {sanitize_lines(text)}", file=sys.stderr)
