"""``refusal-checks report``: write a file about a finished run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import (
    Redact,
    Root,
    Run,
    echo,
    open_run,
    require_target,
    writing,
)
from refusal_checks.core.errors import UserError, require_known
from refusal_checks.reports import formats
from refusal_checks.reports.formats import Format
from refusal_checks.results import run_folder


def add(app: typer.Typer) -> None:
    app.command()(report)


def kinds() -> list[str]:
    """Kinds of reports, for shell completion."""
    return [*_formats_by_kind()]


def report(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="What to write: html or pr-comment.",
            autocompletion=kinds,
        ),
    ],
    run: Run,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File to write; default: a name by KIND, such as report.html.",
        ),
    ] = None,
    root: Root = run_folder.ROOT,
    redact: Redact = False,
) -> None:
    """Write a report of a finished run.

    KIND is one of these, or a report format that an extension adds:

    - html: the page with the answer, the gates, charts, prompts and answers
    - pr-comment: a Markdown comment for a pull request, without texts
    """
    formats_by_kind = _formats_by_kind()
    require_known(kind, formats_by_kind, "report", "kind", UserError)
    module = formats_by_kind[kind]
    target = Path(out or _usual_file(kind, module))
    require_target(target, root, "report", [kind, run, "--out", "FILE"])
    folder = open_run(run, root, redact)
    with writing(target):
        module.write(folder, target)
    echo(target)


def _formats_by_kind() -> Mapping[str, Format]:
    return {
        name.replace("_", "-"): module for name, module in formats.discover().items()
    }


def _usual_file(kind: str, module: Format) -> str:
    file = formats.usual_file(module)
    if not file:
        takes = formats.metavar(module)
        raise UserError(f"report {kind}: give --out {takes} to {module.HELP}")
    return file
