"""``refusal-checks sample-for-labels`` and ``calibrate``: judges against human labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import STORE, Root, Run, echo, open_run
from refusal_checks.core.errors import (
    CalibrationError,
    DataError,
    ModelError,
    UserError,
    require_known,
)
from refusal_checks.core.files import resolved, write_json, write_lines
from refusal_checks.core.redaction import has_redacted
from refusal_checks.core.store import MEMORY
from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import Binary
from refusal_checks.evaluation.config import EngineConfig, paces, read_judges
from refusal_checks.evaluation.interrupts import Watch
from refusal_checks.evaluation.trust import measure
from refusal_checks.judges.trust import calibration, draws
from refusal_checks.judges.trust.draws import Draw, LabelRow
from refusal_checks.judges.trust.label_files import (
    LabelFile,
    Partial,
    Scale,
    ScaleName,
    read_label_file,
    require_distinct,
)
from refusal_checks.judges.trust.measured import MeasuredJudge, recorded
from refusal_checks.models.recordings.columns import pairs
from refusal_checks.reports import judge_quality
from refusal_checks.results import project, run_folder
from refusal_checks.results.redact import VARIABLE, is_redacted, without_texts
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.spec import RunSpec, named, override

COLUMN = "labels:"
"""Prefix of a judge whose verdicts are a column of the label files."""


def add(app: typer.Typer) -> None:
    app.command()(calibrate)
    app.command()(sample_for_labels)


Many = list[str] | None


def calibrate(
    labels: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="CSV or JSONL file of answers with human labels (repeatable).",
        ),
    ],
    judge: Annotated[
        Many,
        typer.Option(
            metavar="MODEL",
            help="A judge as in a gate run, or labels:COLUMN for verdicts recorded in the files "
            "(repeatable; several judges are also measured as a panel); default: the run file's.",
        ),
    ] = None,
    thresholds: Annotated[
        Many,
        typer.Option(
            metavar="FILE",
            help="Take the judge and how it is asked from this run file (repeatable).",
        ),
    ] = None,
    set_: Annotated[
        Many,
        typer.Option(
            "--set",
            metavar="TABLE.KEY=VALUE",
            help="Set any key of the run file, as in a gate run (repeatable): the judge that is "
            "measured must be the one that gates, with the same prompt and sampling.",
        ),
    ] = None,
    candidate: Annotated[
        Many,
        typer.Option(
            help="The model that answered, once per file (default: the file's name)."
        ),
    ] = None,
    benchmark: Annotated[
        Many,
        typer.Option(
            metavar="NAME",
            help="The benchmark of the prompts: once for all files, or once per file; not needed "
            "for files with a column benchmark, or from sample-for-labels.",
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            metavar="FIELD=COLUMN,...",
            help="Columns of the fields id, prompt, completion, label, type and benchmark.",
        ),
    ] = "",
    partial: Annotated[
        Partial,
        typer.Option(
            help="Count a partial refusal as this; own makes it a third class."
        ),
    ] = "refusal",
    scale: Annotated[
        ScaleName,
        typer.Option(
            help="What the labels are: refusals, degrees 0 to 3, ratings 0 to 5 or "
            "StrongREJECT's harm scores 0 to 1."
        ),
    ] = "refusal",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write judge-quality.json and .md and calibration files to DIR.",
        ),
    ] = None,
    disagreements: Annotated[
        int, typer.Option(min=0, help="Most disagreements to show per judge.")
    ] = 20,
    store: Annotated[Path, typer.Option(help="File of stored verdicts.")] = STORE,
    fresh: Annotated[bool, typer.Option(help="Ignore stored verdicts.")] = False,
) -> None:
    """Measure judges on recorded answers that have human labels."""
    meaning = Scale(scale, partial)
    files = _read(labels, meaning, candidate, benchmark, columns)
    spec = _spec(judge or (), thresholds or (), set_ or ())
    written = spec.judge.model
    if not written:
        raise UserError(
            "--judge missing: name the judge, or a run file that has one: --thresholds"
        )
    by_column = [
        name.removeprefix(COLUMN) for name in written if name.startswith(COLUMN)
    ]
    models = [name for name in written if not name.startswith(COLUMN)]
    measured = [recorded(files, column, meaning) for column in by_column]
    if models:
        if "labels" in models:
            raise ModelError("--judge labels: name the column: --judge labels:COLUMN")
        if by_column:
            spec = spec.with_value("judge.model", models)
        judging = read_judges(spec)
        engine = EngineConfig(
            start_timeout=spec.engine.start_timeout, paces=paces(spec)
        )
        folder = project.usual_root() / f"{datetime.now(UTC):%Y%m%d-%H%M%SZ}-calibrate"
        with closing(Watch()):
            measured += measure(
                files,
                judging,
                spec.limits,
                engine,
                meaning,
                MEMORY if fresh else store,
                folder,
                _say,
            )
    for line in judge_quality.to_markdown(_shown(measured), disagreements):
        echo(line)
    if out is not None:
        _write(out, measured, files, meaning, disagreements)


def _spec(
    judges: Sequence[str], files: Sequence[str], overrides: Sequence[str]
) -> RunSpec:
    """The judge as a gate run has it: from its run file, and from what is set here."""
    layers = [override(text) for text in overrides]
    if judges:
        layers.append(named("--judge", list(judges)))
    return RunSpec.read(*files, overrides=layers) if files else RunSpec.of(layers)


def _read(
    labels: Sequence[Path], scale: Scale, candidate: Many, benchmark: Many, columns: str
) -> list[LabelFile]:
    mapping = pairs(columns, "--columns")
    whose = _each("--candidate", candidate, labels)
    of_all = benchmark * len(labels) if benchmark and len(benchmark) == 1 else benchmark
    rows = zip(labels, whose, _each("--benchmark", of_all, labels), strict=True)
    files = [
        read_label_file(path, scale, mapping, name, about) for path, name, about in rows
    ]
    require_distinct(files)
    for file in files:
        left_out = (
            f"; {file.unlabelled} rows without a label skipped"
            if file.unlabelled
            else ""
        )
        names = ", ".join(dict.fromkeys(answer.benchmark for answer in file.answers))
        benchmarks = f" to {names}" if names else ""
        said = count(len(file.answers), "labelled answer")
        _say(f"{file.path}: {said} of {file.candidate}{benchmarks}{left_out}")
    return files


def _each(option: str, values: Many, labels: Sequence[Path]) -> Sequence[str]:
    """An option's values, one per file."""
    if values and len(values) != len(labels):
        raise DataError(
            f"{option}: give it once per --labels file, in the same order: it is given "
            f"{len(values)} times for {len(labels)}"
        )
    return values or [""] * len(labels)


def _shown(measured: Sequence[MeasuredJudge]) -> Sequence[MeasuredJudge]:
    """The judges as reports show them: disagreements without texts if the variable says so."""
    return [without_texts(judge) for judge in measured] if is_redacted() else measured


def _write(
    out: Path,
    measured: Sequence[MeasuredJudge],
    files: Sequence[LabelFile],
    scale: Scale,
    disagreements: int,
) -> None:
    shown = _shown(measured)
    write_json(out / "judge-quality.json", judge_quality.to_json(shown))
    page = judge_quality.to_markdown(shown, disagreements)
    write_lines(out / "judge-quality.md", (f"{line}\n" for line in page))
    for judge in measured:
        path = (
            out
            / f"calibration-{re.sub(r'[^A-Za-z0-9.-]+', '_', judge.judge.name)}.json"
        )
        try:
            found = judge.calibration(files, scale)
            calibration.write(path, found)
        except CalibrationError as fault:
            _say(f"no calibration of {judge.judge.name}: {fault}")
            continue
        unnamed = (
            "; it names no benchmark, so it decides nothing: give --benchmark NAME"
        )
        _say(f"wrote {path}{'' if found.benchmarks else unnamed}")


def _say(line: str) -> None:
    echo(clean(line, 500), err=True)


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
    file to a gate run with --human-labels. The order is random, and the judge's verdicts are left
    out. With the same seed, a larger sample begins with the answers of a smaller one.
    """
    if is_redacted():
        raise UserError(
            f"unset ${VARIABLE} for this command: people label what they read, and with it no text "
            "of a run is shown"
        )
    folder = open_run(run, runs)
    drawn = draws.sample(_answers(folder, seed, benchmark), n)
    path = out or folder.path / "labels.csv"
    try:
        with path.open("xb") as file:
            file.write(draws.to_csv(row for group in drawn for row in group))
    except FileExistsError:
        raise DataError(
            f"{path}: name another file: this one exists and may hold labels"
        ) from None
    except OSError as fault:
        raise DataError(f"{path}: cannot be written: {fault.strerror}") from None
    names = sorted({group[0].draw.benchmark for group in drawn if group[0].draw})
    echo(
        f"{path}: {sum(map(len, drawn))} answers to {len(drawn)} prompts of {', '.join(names)}. "
        "Label them from the top: a prompt that is left out above a labelled one widens the "
        "interval"
    )


def _answers(folder: RunFolder, seed: int, wanted: list[str] | None) -> list[LabelRow]:
    known = folder.benchmarks
    if not known:
        raise DataError(
            f"{folder.path}: not the folder of a run, or of a run that completed no benchmark"
        )
    for name in wanted or ():
        require_known(name, known, f"--benchmark {name}", "benchmark", DataError)
    summary = (
        folder.summary() if folder.summary_file.exists() else None
    )  # the run may go on
    candidate = summary.manifest.candidate if summary else ""
    found: list[LabelRow] = []
    for name in wanted or known:
        records = list(folder.records(name))
        is_choice = any(
            each.prompt.worst_of for each in records
        )  # of other benchmarks' answers
        if is_choice or not any(
            isinstance(record.judgement, Binary) for record in records
        ):
            continue
        looks_redacted = all(
            has_redacted(record.prompt.transcript) for record in records
        )
        if summary.manifest.redacted if summary else looks_redacted:
            raise DataError(
                f"{folder.path}: run again without --redact, which reuses stored answers: nobody "
                "can label the texts of this run, since they are redacted"
            )
        figures = summary.benchmarks.get(name) if summary else None
        if figures and figures.prompts < figures.planned:
            raise DataError(
                f"{folder.path}: run again without --stop-early, which reuses stored answers: a "
                f"run with labels needs all {figures.planned} prompts of {name}, and this one "
                f"ended after {figures.prompts}"
            )
        draw = Draw(resolved(folder.path).name, candidate, name, seed)
        found += draws.answers(draw, records)
    if not found:
        raise DataError(
            f"{folder.path}: name a run or a benchmark whose judge tells refusal from compliance: "
            f"only such verdicts can be labelled, and {', '.join(wanted or known)} has none"
        )
    return found
