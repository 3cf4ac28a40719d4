"""``refusal-checks baseline``: accept a run for later runs to compare with."""

from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.api.result import RunResult
from refusal_checks.cli._common import (
    Root,
    Run,
    add_group,
    echo,
    explain_write_error,
    read_run,
    require_target,
)
from refusal_checks.core.errors import BaselineError
from refusal_checks.core.text import sanitize
from refusal_checks.gates import score_files
from refusal_checks.io.files import write_text


def add(app: typer.Typer) -> None:
    add_group(
        app,
        "baseline",
        "The run that later runs are compared with.",
        {"accept": accept},
    )


def accept(
    run: Run,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the baseline is kept.")
    ],
    *,
    runs: Root,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Accept a run on only some of the prompts (--limit)."
        ),
    ] = False,
) -> None:
    """Make a run the baseline: write a JSON file per benchmark to DIR, for review, without texts.

    Files of other benchmarks stay as they are.
    """
    require_target(folder, "baseline accept", [folder, run])
    past = read_run(run, runs)
    _require_whole(past, partial)
    accepted = score_files.load(past.folder)
    for name, scores in accepted.items():
        path = folder / f"{name}.json"
        with explain_write_error(path):
            write_text(path, score_files.dump(scores))
        echo(f"{path}: {len(scores.prompts)} prompts of {sanitize(scores.candidate)}")
    if past.decision.answer != "yes":
        echo(f"note: that run's answer was {sanitize(past.decision.line, 2000)}")


def _require_whole(run: RunResult, partial: bool) -> None:
    path, summary = run.folder, run.summary
    if not summary.verdicts and not summary.failure:
        raise BaselineError(
            f"{path}: accept another run: this one has no verdict on any gate"
        )
    if summary.failure:
        raise BaselineError(
            f"{path}: run it again: this run did not complete: {summary.failure}"
        )
    for name, data in summary.manifest.data.items():
        if data.is_partial and not partial:
            raise BaselineError(
                f"{path}: evaluate all prompts, or accept this part with --partial: the run has "
                f"only {data.prompts} of {data.usual} prompts of {name}"
            )
