"""``refusal-checks sample-for-labels``: a random sample of a run's answers for people to label."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import Root, Run, echo, open_run, writing
from refusal_checks.core.errors import DataError, UserError, require_known
from refusal_checks.core.files import replacing, resolved
from refusal_checks.core.records import Record
from refusal_checks.core.redaction import has_redacted
from refusal_checks.core.verdicts import Binary
from refusal_checks.judges.trust import draws
from refusal_checks.judges.trust.draws import Draw, Drawn, LabelRow
from refusal_checks.results.redact import VARIABLE, is_redacted
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary


def add(app: typer.Typer) -> None:
    app.command()(sample_for_labels)


def sample_for_labels(
    run: Run,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            min=1,
            help="How many prompts to draw, with one answer each (default: 100; of refusals, 20 "
            "answers).",
        ),
    ] = None,
    of: Annotated[
        Drawn,
        typer.Option(
            help="What to draw from: all answers, or those that counted as refusals on prompts "
            "that must be refused.",
        ),
    ] = "answers",
    seed: Annotated[int, typer.Option(help="Seed of the random draw.")] = 0,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(help="Only answers of this benchmark (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV file to write (default: RUN/labels.csv, of refusals RUN/refusals.csv).",
        ),
    ] = None,
    *,
    runs: Root,
) -> None:
    """Write a random sample of a run's answers to a CSV file for people to label.

    Fill its column "label" from the top with refusal, partial_refusal or compliance, and give the
    file to a gate run with --human-labels FILE --set trust.labelled_by=people. Judges' verdicts are
    left out. With the same seed, a larger sample begins with the answers of a smaller one.

    --of refusals draws from what passed the safety gates, to show what counts as a refusal.
    """
    if is_redacted():
        raise UserError(
            f"unset ${VARIABLE} for this command: it hides the texts that people label"
        )
    folder = open_run(run, runs)
    rows = _answers(folder, of, seed, benchmark)
    if of == "refusals":
        usual, which = "refusals.csv", "answers that counted as refusals,"
        sampled = draws.sample_refusals(rows, n or 20)
    else:
        usual, which = "labels.csv", "answers"
        sampled = draws.sample(rows, n or 100)
    path = out or folder.path / usual
    if os.path.lexists(path):
        raise DataError(
            f"{path}: name another file: this one exists and may hold labels"
        )
    with writing(path), replacing(path) as draft:
        draft.write_bytes(draws.to_csv(sampled))
    names = sorted({row.draw.benchmark for row in sampled})
    prompts = {(row.draw, row.id) for row in sampled}
    echo(
        f"{path}: {len(sampled)} {which} to {len(prompts)} prompts of {', '.join(names)}. Label "
        "them from the top, and skip none"
    )


def _answers(
    folder: RunFolder, drawn: Drawn, seed: int, names: list[str] | None
) -> list[LabelRow]:
    """The answers that people can label: those whose verdicts are refusals or compliances."""
    there = folder.complete  # of others, no random sample can be drawn
    if not there:
        raise DataError(
            f"{folder.path}: not the folder of a run, or of a run that completed no benchmark"
        )
    for name in names or ():
        require_known(name, there, f"--benchmark {name}", "benchmark", DataError)
    summary = None  # while the run goes on
    if folder.has_ended:
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
        if drawn == "refusals":
            records = draws.counted_as_refused(records)
        rows += draws.answers(Draw(run, candidate, name, seed, drawn), records)
    if not rows and drawn == "refusals":
        raise DataError(
            f"{folder.path}: sample other answers, without --of refusals: in "
            f"{', '.join(names or there)} no answer to a prompt that must be refused counted as a "
            "refusal"
        )
    if not rows:
        raise DataError(
            f"{folder.path}: name a run or a benchmark whose judge tells refusal from compliance: "
            f"people label only such verdicts, and {', '.join(names or there)} has none"
        )
    return rows


def _can_be_labelled(records: Sequence[Record]) -> bool:
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
            f"{folder.path}: run again without --redact, which reuses stored answers: the texts of "
            "this run are redacted, so nobody can label them"
        )


def _require_whole(folder: RunFolder, name: str, summary: RunSummary | None) -> None:
    figures = summary.benchmarks.get(name) if summary else None
    if figures and figures.prompts < figures.planned:
        raise DataError(
            f"{folder.path}: run again, which reuses stored answers: a run "
            f"with labels needs all {figures.planned} prompts of {name}, and this one ended after "
            f"{figures.prompts}"
        )
