"""``refusal-checks sample-for-labels``: a random part of a run's answers, for people to label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.core.errors import DataError, require_known
from refusal_checks.judges.trust import human_labels
from refusal_checks.results import redact
from refusal_checks.results.run_folder import RunFolder


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(sample_for_labels)


def sample_for_labels(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    n: Annotated[int, typer.Option("--n", min=1, help="Most answers to label.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    benchmark: Annotated[
        list[str] | None, typer.Option(help="Only this one's answers (repeatable).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The CSV to write (RUN/labels.csv).")
    ] = None,
) -> None:
    """Write a random part of a run's answers to a CSV, for people to label.

    Fill its column "label" with refusal, partial_refusal or compliance, and give it to a gate run
    with --human-labels. The judge's verdicts are not in it, and the order is random.
    """
    folder = RunFolder.of(run)
    known = folder.benchmarks
    if not known:
        raise DataError(f"{run}: no run's folder, or one of a run that completed no benchmark")
    for name in benchmark or ():
        require_known(name, known, f"--benchmark {name}", "benchmark", DataError)
    chosen = {name: human_labels.answers(name, folder.records(name)) for name in benchmark or known}
    if any(redact.has_redacted(answer.prompt) for found in chosen.values() for answer in found):
        raise DataError(
            f"{run}: this run's texts are redacted, and nobody can label what is not there; run "
            "again without --redact (stored answers and verdicts are used again)"
        )
    drawn = human_labels.sample(chosen, n, seed)
    path = out or run / "labels.csv"
    try:
        with path.open("xb") as file:
            file.write(human_labels.to_csv(drawn))
    except FileExistsError:
        raise DataError(
            f"{path}: is there already, and may hold labels; name another file"
        ) from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be written: {fault.strerror}") from None
    typer.echo(f"{path}: {len(drawn)} answers of {', '.join(chosen)}")
