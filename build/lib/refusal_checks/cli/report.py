"""``refusal-checks report``: reports of finished runs. ``watch`` names its replacement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import (
    LIKE_A_RUN,
    Redact,
    Root,
    Runs,
    add_group,
    echo,
    require_target,
)
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.reports import formats
from refusal_checks.reports.formats import Format
from refusal_checks.results import run_folder
from refusal_checks.results.redact import RedactedFolder
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.run.options.command_line import is_redacted


def add(app: typer.Typer) -> None:
    found = [each for each in formats.discover().values() if each.OPTION]
    writers = {each.OPTION.lstrip("-"): _writer(each) for each in found}
    add_group(app, "report", "Write reports of finished runs.", writers)
    app.command(hidden=True, context_settings=LIKE_A_RUN)(watch)


def watch() -> None:
    """Say what to use instead."""
    raise UserError(f"watch: {formats.NO_WATCH}")


def _writer(found: Format) -> Callable[..., None]:
    command, takes = found.OPTION.lstrip("-"), formats.metavar(found)
    about = "The file to write." if takes == formats.FILE else "Where the runs are logged."

    def write(file: Path, runs: Runs, root: Root = run_folder.ROOT, redact: Redact = False) -> None:
        require_target(file, root, f"report {command}", [*runs, file])
        folder = RedactedFolder if is_redacted(redact) else RunFolder
        try:
            found.write([folder.of(run_folder.locate(run, root)) for run in runs], file)
        except OSError as fault:
            raise DataError(f"{file}: cannot be written: {fault.strerror or fault}") from None
        echo(str(file))

    write.__doc__ = f"{found.HELP[:1].upper()}{found.HELP[1:]}."
    write.__annotations__["file"] = Annotated[Path, typer.Argument(metavar=takes, help=about)]
    return write
