"""``refusal-checks sample-for-labels``: a random sample of a run's answers for people to label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._runs import Root, Run
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.judges.trust import human_labels
from refusal_checks.results import redact, run_folder


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(sample_for_labels)


def sample_for_labels(
    run: Run,
    n: Annotated[int, typer.Option("--n", min=1, help="Most answers to label.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the random draw.")] = 0,
    benchmark: Annotated[
        list[str] | None, typer.Option(help="Only answers of this benchmark (repeatable).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file to write (default: RUN/labels.csv)."),
    ] = None,
    runs: Root = run_folder.ROOT,
) -> None:
    """Write a random sample of a run's answers to a CSV file for people to label.

    Fill its column "label" with refusal, partial_refusal or compliance, and give the file to a gate
    run with --human-labels. The order is random, and the judge's verdicts are left out.
    """
    folder = run_folder.find(run, runs)
    known = folder.benchmarks
    if not known:
        raise DataError(f"{run}: not the folder of a run, or of a run that completed no benchmark")
    for name in benchmark or ():
        require_known(name, known, f"--benchmark {name}", "benchmark", DataError)
    chosen = {name: human_labels.answers(name, folder.records(name)) for name in benchmark or known}
    if any(redact.has_redacted(answer.prompt) for answers in chosen.values() for answer in answers):
        raise DataError(
            f"{run}: run again without --redact, which reuses stored answers: nobody "
            "can label the texts of this run, since they are redacted"
        )
    drawn = human_labels.sample(chosen, n, seed)
    path = out or folder.path / "labels.csv"
    try:
        with path.open("xb") as file:
            file.write(human_labels.to_csv(drawn))
    except FileExistsError:
        raise DataError(f"{path}: name another file: this one exists and may hold labels") from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be written: {fault.strerror}") from None
    typer.echo(f"{path}: {len(drawn)} answers of {', '.join(chosen)}")
