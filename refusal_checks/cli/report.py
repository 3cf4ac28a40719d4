"""``refusal-checks report``: write a file about a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import (
    Redact,
    Root,
    Run,
    echo,
    explain_write_error,
    open_run,
    require_target,
)
from refusal_checks.core.errors import UserError, require_known
from refusal_checks.reports import formats


def add(app: typer.Typer) -> None:
    app.command()(report)


def kinds() -> list[str]:
    """Kinds of reports, for shell completion."""
    return [*formats.discover()]


def report(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="What to write: html, markdown or junit.",
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
    *,
    root: Root,
    redact: Redact = False,
) -> None:
    """Write a report of a finished run.

    KIND is one of these, or a report format that an extension adds:

    - html: the page with the answer, the gates, charts, prompts and answers
    - markdown: the answer and the gates for a pull request, without texts
    - junit: JUnit XML, a case for each gate
    """
    known = formats.discover()
    require_known(kind, known, "report", "kind", UserError)
    chosen = known[kind]
    target = Path(out or chosen.usual_file)
    if not (out or chosen.usual_file):
        raise UserError(f"report {kind}: add --out TARGET: this report is not a file")
    if out == "-":
        raise UserError(f"report {kind}: --out -: name a file: reports are not printed")
    require_target(target, "report", [kind, run, "--out", "FILE"])
    if chosen.check:
        chosen.check(target)
    folder = open_run(run, root, redact)
    with explain_write_error(target):
        chosen.write(folder, target)
    echo(target if chosen.usual_file else f"{kind} report written")
