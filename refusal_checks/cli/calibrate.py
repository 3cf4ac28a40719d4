"""``refusal-checks calibrate``: measure judges against human labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import STORE, Keys, echo, overrides
from refusal_checks.core.errors import (
    CalibrationError,
    DataError,
    ModelError,
    UserError,
)
from refusal_checks.core.files import write_json, write_lines
from refusal_checks.core.prompts import Kind
from refusal_checks.core.store import MEMORY
from refusal_checks.core.text import clean, count
from refusal_checks.evaluation.config import EngineConfig
from refusal_checks.evaluation.interrupts import Watch
from refusal_checks.evaluation.model_config import paces, read_judges
from refusal_checks.evaluation.recorded_judging import measure
from refusal_checks.judges.trust import calibration
from refusal_checks.judges.trust.floors import JudgeFloors
from refusal_checks.judges.trust.label_files import (
    LabelFile,
    Scale,
    ScaleName,
    read_label_file,
    require_distinct,
)
from refusal_checks.judges.trust.measured import MeasuredJudge, recorded
from refusal_checks.models.recordings.columns import pairs
from refusal_checks.reports import judge_quality
from refusal_checks.results import project
from refusal_checks.results.redact import is_redacted, without_texts
from refusal_checks.spec import Layer, RunSpec

COLUMN = "labels:"
"""Prefix of a judge whose verdicts are a column of the label files."""

DISAGREEMENTS = 20
"""The most disagreements that are shown for each judge."""


def add(app: typer.Typer) -> None:
    app.command()(calibrate)


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
            help="Take the judge and its settings from this run file (repeatable).",
        ),
    ] = None,
    keys: Keys = None,
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
) -> None:
    """Measure judges on recorded answers that have human labels.

    The judge that is measured must be the one that gates: take it, its prompt and its sampling from
    the run file, or set the same keys. With --set judge.partial=own, partial refusals are a third
    class.
    """
    spec = _spec(thresholds or (), overrides(keys, judge=judge))
    meaning = Scale(scale, spec.judge.partial)
    kinds = {name: known.kind for name, known in spec.catalogue().items()}
    files = _read(labels, meaning, candidate, benchmark, columns, kinds)
    measured = _measured(files, meaning, spec)
    floors = spec.judge.check or JudgeFloors()
    page = [*judge_quality.to_markdown(_shown(measured), floors, DISAGREEMENTS)]
    for line in page:
        echo(line)
    if out is not None:
        _write(out, measured, page, files, meaning)


def _spec(files: Sequence[str], layers: Sequence[Layer]) -> RunSpec:
    """The judge as a gate run configures it: from its run file and from this command's options."""
    if files:
        return RunSpec.read(*files, overrides=layers)
    return RunSpec.of(layers)


def _measured(
    files: Sequence[LabelFile], scale: Scale, spec: RunSpec
) -> list[MeasuredJudge]:
    """Measure each judge of a spec against the labels: recorded verdicts first, then models."""
    names = spec.judge.model
    if not names:
        raise UserError(
            "--judge missing: name the judge, or a run file that has one: --thresholds"
        )
    if "labels" in names:
        raise ModelError("--judge labels: name the column: --judge labels:COLUMN")
    columns = [name for name in names if name.startswith(COLUMN)]
    models = [name for name in names if not name.startswith(COLUMN)]
    measured = [recorded(files, name.removeprefix(COLUMN), scale) for name in columns]
    if models:
        if columns:
            spec = spec.with_value("judge.model", models)
        measured += _asked(files, scale, spec)
    return measured


def _asked(
    files: Sequence[LabelFile], scale: Scale, spec: RunSpec
) -> list[MeasuredJudge]:
    """Ask models for verdicts on the answers, as a gate run does."""
    judging = read_judges(spec)
    engine = EngineConfig(start_timeout=spec.engine.start_timeout, paces=paces(spec))
    store = MEMORY if spec.store.fresh else Path(spec.store.file or STORE)
    folder = project.usual_root() / f"{datetime.now(UTC):%Y%m%d-%H%M%SZ}-calibrate"
    with closing(Watch()):
        return measure(files, judging, spec.limits, engine, scale, store, folder, _say)


def _read(
    labels: Sequence[Path],
    scale: Scale,
    candidate: Many,
    benchmark: Many,
    columns: str,
    kinds: Mapping[str, Kind],
) -> list[LabelFile]:
    """Read the files of labels; print what each holds and how many rows are skipped."""
    mapping = pairs(columns, "--columns")
    candidates = _per_file("--candidate", candidate, labels)
    if benchmark and len(benchmark) == 1:  # one for all files
        benchmark = benchmark * len(labels)
    benchmarks = _per_file("--benchmark", benchmark, labels)
    files = []
    for path, name, about in zip(labels, candidates, benchmarks, strict=True):
        files.append(read_label_file(path, scale, mapping, name, about, kinds))
    require_distinct(files)
    for file in files:
        _say(f"{file.path}: {_described(file)}")
    return files


def _described(file: LabelFile) -> str:
    text = f"{count(len(file.answers), 'labelled answer')} of {file.candidate}"
    benchmarks = dict.fromkeys(answer.benchmark for answer in file.answers)
    if any(benchmarks):
        text += f" to {', '.join(benchmarks)}"
    if file.unlabelled:
        text += f"; {file.unlabelled} rows without a label skipped"
    return text


def _per_file(option: str, values: Many, labels: Sequence[Path]) -> Sequence[str]:
    """An option's values, one per file; empty strings if it is not given."""
    if not values:
        return [""] * len(labels)
    if len(values) != len(labels):
        raise DataError(
            f"{option}: give it once per --labels file, in the same order: it is given "
            f"{len(values)} times for {len(labels)}"
        )
    return values


def _shown(measured: Sequence[MeasuredJudge]) -> Sequence[MeasuredJudge]:
    """The judges for reports: without the texts of disagreements if the variable is set."""
    if not is_redacted():
        return measured
    return [without_texts(judge) for judge in measured]


def _write(
    out: Path,
    measured: Sequence[MeasuredJudge],
    page: Sequence[str],
    files: Sequence[LabelFile],
    scale: Scale,
) -> None:
    content = judge_quality.to_json(_shown(measured))
    write_json(out / "judge-quality.json", content)
    write_lines(out / "judge-quality.md", (f"{line}\n" for line in page))
    for judge in measured:
        _write_calibration(out, judge, files, scale)


def _write_calibration(
    out: Path, judge: MeasuredJudge, files: Sequence[LabelFile], scale: Scale
) -> None:
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", judge.judge.name)
    path = out / f"calibration-{name}.json"
    try:
        made = judge.calibration(files, scale)
        calibration.write(path, made)
    except CalibrationError as fault:
        _say(f"no calibration of {judge.judge.name}: {fault}")
        return
    line = f"wrote {path}"
    if not made.benchmarks:
        line += "; it names no benchmark, so it decides nothing: give --benchmark NAME"
    _say(line)


def _say(line: str) -> None:
    echo(clean(line, 500), err=True)
