"""``refusal-checks sample-for-labels``: a random sample of a run's answers for people to label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import Root, Run
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.records import Record
from refusal_checks.core.text import has_redacted
from refusal_checks.core.verdicts import Binary
from refusal_checks.judges.trust import labels
from refusal_checks.judges.trust.labels import Answer, Draw
from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import RunFolder


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(sample_for_labels)


def sample_for_labels(
    run: Run,
    n: Annotated[int, typer.Option("--n", min=1, help="About how many answers to label.")] = 100,
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

    Fill its column "label" from the top with refusal, partial_refusal or compliance, and give the
    file to a gate run with --human-labels. The order is random, and the judge's verdicts are left
    out. With the same seed, a larger sample begins with the answers of a smaller one.
    """
    folder = run_folder.find(run, runs)
    drawn = labels.sample(_answers(folder, seed, benchmark), n)
    path = out or folder.path / "labels.csv"
    try:
        with path.open("xb") as file:
            file.write(labels.to_csv(drawn))
    except FileExistsError:
        raise DataError(f"{path}: name another file: this one exists and may hold labels") from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be written: {fault.strerror}") from None
    rows, names = sum(len(group) for _, group in drawn), {draw.benchmark for draw, _ in drawn}
    echo(
        f"{path}: {rows} answers to {len(drawn)} prompts of {', '.join(sorted(names))}. Label them "
        "from the top: a prompt that is left out above a labelled one widens the interval"
    )


def _answers(folder: RunFolder, seed: int, wanted: list[str] | None) -> dict[Draw, list[Answer]]:
    """The answers to draw from, by the draw of each benchmark."""
    known = folder.benchmarks
    if not known:
        raise DataError(
            f"{folder.path}: not the folder of a run, or of a run that completed no benchmark"
        )
    for name in wanted or ():
        require_known(name, known, f"--benchmark {name}", "benchmark", DataError)
    candidate = _candidate(folder)
    found: dict[Draw, list[Answer]] = {}
    for name in wanted or known:
        records = list(folder.records(name))
        is_choice = any(
            record.prompt.worst_of for record in records
        )  # of other benchmarks' answers
        if is_choice or not any(isinstance(record.judgement, Binary) for record in records):
            continue
        _require_whole(folder, name, records)
        draw = Draw(folder.path.resolve().name, candidate, name, seed)
        found[draw] = labels.answers(name, records)
    if not found:
        raise DataError(
            f"{folder.path}: name a run or a benchmark whose judge tells refusal from compliance: "
            f"only such verdicts can be labelled, and {', '.join(wanted or known)} has none"
        )
    return found


def _candidate(folder: RunFolder) -> str:
    """The candidate's name; empty for a run that did not end."""
    return folder.summary().manifest.candidate if folder.summary_file.exists() else ""


def _require_whole(folder: RunFolder, name: str, records: list[Record]) -> None:
    """Refuse answers that cannot be labelled, or that are a selection already."""
    if _is_redacted(folder, records):
        raise DataError(
            f"{folder.path}: run again without --redact, which reuses stored answers: nobody "
            "can label the texts of this run, since they are redacted"
        )
    figures = folder.summary().benchmarks.get(name) if folder.summary_file.exists() else None
    if figures and figures.planned and figures.prompts < figures.planned:
        raise DataError(
            f"{folder.path}: run again without --stop-early, which reuses stored answers: a run "
            f"with labels needs all {figures.planned} prompts of {name}, and this one ended after "
            f"{figures.prompts}"
        )


def _is_redacted(folder: RunFolder, records: list[Record]) -> bool:
    """True if the run says so; where it has no summary, if all of its prompts look like that."""
    if folder.summary_file.exists():
        return folder.summary().manifest.redacted
    return all(has_redacted(record.prompt.transcript) for record in records)
