"""``refusal-checks sample-for-labels``: answers that counted as refused, for people to label."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import Root, Run, echo, explain_write_error, open_run
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.labelling import LEAST
from refusal_checks.core.redaction import has_redacted
from refusal_checks.io.files import replace_file
from refusal_checks.results.redact import VARIABLE, is_redacted
from refusal_checks.trust import labels


def add(app: typer.Typer) -> None:
    app.command()(sample_for_labels)


def sample_for_labels(
    run: Run = "last",
    of: Annotated[
        tuple[str, int],
        typer.Option(
            "--of",
            metavar="refusals N",
            help=f"How many prompts to draw, with one refusal each; {LEAST} or more.",
        ),
    ] = ("refusals", 20),
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV file to write (default: RUN/refusals.csv)."
        ),
    ] = None,
    *,
    runs: Root,
) -> None:
    """Write answers that counted as refusals to a CSV file, for people to check.

    Draws random prompts that must be refused, and one refusal of each. Fill the column "label" with
    refusal, partial_refusal or compliance, then repeat the gate run with --human-labels FILE: the
    rate is multiplied by the share that people confirm. A blank or deleted row confirms nothing. A
    larger sample begins with the answers of a smaller one.
    """
    if is_redacted():
        raise UserError(
            f"unset ${VARIABLE} for this command: it hides the texts that people label"
        )
    what, wanted = of
    if what != "refusals" or wanted < LEAST:
        raise UserError(
            f"--of {what} {wanted}: write --of refusals 20; {LEAST} are the fewest that "
            "decide anything"
        )
    folder = open_run(run, runs)
    if not folder.complete:
        raise DataError(f"{folder.path}: name a run that completed a benchmark")
    drawn = labels.draw(
        {name: folder.records(name) for name in folder.complete}, wanted
    )
    if not drawn:
        raise DataError(
            f"{folder.path}: there is nothing to label: in {', '.join(folder.complete)}, no answer "
            "to a prompt that must be refused counted as a refusal"
        )
    if any(has_redacted(one.prompt) for one in drawn):
        raise DataError(
            f"{folder.path}: run again without --redact, which reuses the stored answers: nobody "
            "can label this run's redacted texts"
        )
    path = out or folder.path / "refusals.csv"
    if os.path.lexists(path):
        raise DataError(
            f"{path}: name another file with --out: this one exists and may contain labels"
        )
    with explain_write_error(path), replace_file(path) as draft:
        draft.write_bytes(labels.write_sheet(drawn))
    names = ", ".join(sorted({one.benchmark for one in drawn}))
    echo(
        f'{path}: {len(drawn)} refusals of {names}. Fill in the column "label", then run the gate '
        f"again with --human-labels {path}"
    )
