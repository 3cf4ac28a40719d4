"""``refusal-checks sample-for-labels``: a random sample of a run's answers for people to label."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import Root, Run, echo, open_run
from refusal_checks.core.errors import DataError, UserError, require_known
from refusal_checks.core.files import resolved
from refusal_checks.core.records import Record
from refusal_checks.core.redaction import has_redacted
from refusal_checks.core.verdicts import Binary
from refusal_checks.judges.trust import draws
from refusal_checks.judges.trust.draws import Draw, LabelRow
from refusal_checks.results import run_folder
from refusal_checks.results.redact import VARIABLE, is_redacted
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary


def add(app: typer.Typer) -> None:
    app.command()(sample_for_labels)


def sample_for_labels(
    run: Run,
    n: Annotated[
        int, typer.Option("--n", min=1, help="About how many answers to label.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the random draw.")] = 0,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(help="Only answers of this benchmark (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV file to write (default: RUN/labels.csv)."
        ),
    ] = None,
    runs: Root = run_folder.ROOT,
) -> None:
    """Write a random sample of a run's answers to a CSV file for people to label.

    Fill its column "label" from the top with refusal, partial_refusal or compliance, and give the
    file to a gate run with --human-labels. Judges' verdicts are left out. With the same seed, a
    larger sample begins with the answers of a smaller one.
    """
    if is_redacted():
        raise UserError(
            f"unset ${VARIABLE} for this command: people label what they read, and with it no text "
            "of a run is shown"
        )
    folder = open_run(run, runs)
    groups = draws.sample(_answers(folder, seed, benchmark), n)
    path = out or folder.path / "labels.csv"
    try:
        with path.open("xb") as file:
            file.write(draws.to_csv(chain.from_iterable(groups)))
    except FileExistsError:
        raise DataError(
            f"{path}: name another file: this one exists and may hold labels"
        ) from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be written: {fault.strerror}") from None
    names = sorted({group[0].draw.benchmark for group in groups if group[0].draw})
    echo(
        f"{path}: {sum(map(len, groups))} answers to {len(groups)} prompts of {', '.join(names)}. "
        "Label them from the top: a prompt that is left out above a labelled one widens the "
        "interval"
    )


def _answers(folder: RunFolder, seed: int, names: list[str] | None) -> list[LabelRow]:
    """The answers that people can label: those whose verdicts are refusals or compliances."""
    there = folder.benchmarks
    if not there:
        raise DataError(
            f"{folder.path}: not the folder of a run, or of a run that completed no benchmark"
        )
    for name in names or ():
        require_known(name, there, f"--benchmark {name}", "benchmark", DataError)
    summary = None  # while the run goes on
    if folder.summary_file.exists():
        summary = folder.summary()
    candidate = summary.manifest.candidate if summary else ""
    run = resolved(folder.path).name
    rows: list[LabelRow] = []
    for name in names or there:
        records = list(folder.records(name))
        if not _can_be_labelled(records):
            continue
        _require_texts(folder, records, summary)
        _require_whole(folder, name, summary)
        rows += draws.answers(Draw(run, candidate, name, seed), records)
    if not rows:
        raise DataError(
            f"{folder.path}: name a run or a benchmark whose judge tells refusal from compliance: "
            f"only such verdicts can be labelled, and {', '.join(names or there)} has none"
        )
    return rows


def _can_be_labelled(records: Sequence[Record]) -> bool:
    if any(record.prompt.worst_of for record in records):
        return False  # they are chosen from other benchmarks' answers
    return any(isinstance(record.judgement, Binary) for record in records)


def _require_texts(
    folder: RunFolder, records: Sequence[Record], summary: RunSummary | None
) -> None:
    if summary:
        is_without_texts = summary.manifest.redacted
    else:
        is_without_texts = all(
            has_redacted(record.prompt.transcript) for record in records
        )
    if is_without_texts:
        raise DataError(
            f"{folder.path}: run again without --redact, which reuses stored answers: nobody can "
            "label the texts of this run, since they are redacted"
        )


def _require_whole(folder: RunFolder, name: str, summary: RunSummary | None) -> None:
    figures = summary.benchmarks.get(name) if summary else None
    if figures and figures.prompts < figures.planned:
        raise DataError(
            f"{folder.path}: run again without --stop-early, which reuses stored answers: a run "
            f"with labels needs all {figures.planned} prompts of {name}, and this one ended after "
            f"{figures.prompts}"
        )
