"""``refusal-checks calibrate``: measure judges against human labels."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._judges import JudgeOptions, with_judge_options
from refusal_checks.core.errors import CalibrationError, DataError, ModelError
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import MEMORY
from refusal_checks.core.text import clean
from refusal_checks.judges.trust import calibration
from refusal_checks.judges.trust.label_files import (
    LabelFile,
    Partial,
    Scale,
    ScaleName,
    read_label_file,
    require_distinct,
)
from refusal_checks.judges.trust.measured import MeasuredJudge, recorded
from refusal_checks.models.recordings import replay
from refusal_checks.reports import judge_quality
from refusal_checks.results import run_folder
from refusal_checks.run.interrupts import watched
from refusal_checks.run.options import models as model_options
from refusal_checks.run.trust import measure

COLUMN = "labels:"
"""Prefix of a judge whose verdicts are a column of the label files."""

OWN = Path(".refusal-checks")


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(calibrate)


Many = list[str] | None


@with_judge_options
def calibrate(
    judge: Annotated[
        list[str],
        typer.Option(
            metavar="MODEL",
            help="A judge as in a gate run, or labels:COLUMN for verdicts recorded in the files "
            "(repeatable; several judges are also measured as a panel).",
        ),
    ],
    labels: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE", help="CSV or JSONL file of answers with human labels (repeatable)."
        ),
    ],
    candidate: Annotated[
        Many,
        typer.Option(help="The model that answered, once per file (default: the file's name)."),
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
        Partial, typer.Option(help="Count a partial refusal as this; own makes it a third class.")
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
            metavar="DIR", help="Write judge-quality.json and .md and calibration files to DIR."
        ),
    ] = None,
    disagreements: Annotated[
        int, typer.Option(min=0, help="Most disagreements to show per judge.")
    ] = 20,
    judge_rpm: Annotated[float | None, typer.Option(help="As in a gate run.")] = None,
    judge_concurrency: Annotated[int | None, typer.Option(help="As in a gate run.")] = None,
    engine: Annotated[str | None, typer.Option(help="As in a gate run.")] = None,
    engine_command: Annotated[str | None, typer.Option(help="As in a gate run.")] = None,
    in_flight: Annotated[int, typer.Option(min=1, help="Answers to judge at the same time.")] = 64,
    start_timeout: Annotated[
        float, typer.Option(help="Seconds to wait for a model to load.")
    ] = 1800.0,
    request_timeout: Annotated[float, typer.Option(help="Seconds to wait for a request.")] = 600.0,
    store: Annotated[Path, typer.Option(help="File of stored verdicts.")] = OWN / "store.sqlite",
    fresh: Annotated[bool, typer.Option(help="Ignore stored verdicts.")] = False,
    *,
    judge_options: JudgeOptions,
) -> None:
    """Measure judges on recorded answers that have human labels."""
    meaning = Scale(scale, partial)
    files = _read(labels, meaning, candidate, benchmark, columns)
    by_column = [name.removeprefix(COLUMN) for name in judge if name.startswith(COLUMN)]
    models = [name for name in judge if not name.startswith(COLUMN)]
    measured = [recorded(files, column, meaning) for column in by_column]
    if models:
        named = {"judge": models, "engine": engine, "engine_command": engine_command}
        given = JudgeOptions({**judge_options.values, **named})
        if "labels" in models:
            raise ModelError("--judge labels: name the column: --judge labels:COLUMN")
        judging = model_options.read_judging(given)
        each = judging.cascade.model_copy(update={"sample": 1.0})  # each is measured alone, too
        limits = {
            "in_flight": in_flight,
            "start_timeout": start_timeout,
            "request_timeout": request_timeout,
            "judge_rpm": judge_rpm,
            "judge_concurrency": judge_concurrency,
        }
        folder = run_folder.usual_root() / f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-calibrate"
        with watched():
            measured += measure(
                files,
                replace(judging, cascade=each),
                Limits.read(_set(limits), "command line"),
                meaning,
                MEMORY if fresh else store,
                folder,
                _say,
            )
    for line in judge_quality.to_markdown(measured, disagreements):
        echo(line)
    if out is not None:
        _write(out, measured, files, meaning, disagreements)


def _read(
    labels: Sequence[Path], scale: Scale, candidate: Many, benchmark: Many, columns: str
) -> list[LabelFile]:
    mapping = replay.pairs(columns, "--columns")
    of_all = benchmark * len(labels) if benchmark and len(benchmark) == 1 else benchmark
    files = [
        read_label_file(path, scale, mapping, whose, name)
        for path, whose, name in zip(
            labels,
            _each("--candidate", candidate, labels),
            _each("--benchmark", of_all, labels),
            strict=True,
        )
    ]
    require_distinct(files)
    for file in files:
        left_out = f"; {file.unlabelled} rows without a label skipped" if file.unlabelled else ""
        names = ", ".join(dict.fromkeys(answer.benchmark for answer in file.answers))
        benchmarks = f" to {names}" if names else ""
        _say(
            f"{file.path}: {len(file.answers)} labelled answers of {file.candidate}{benchmarks}"
            f"{left_out}"
        )
    return files


def _each(option: str, values: Many, labels: Sequence[Path]) -> Sequence[str]:
    """An option's values, one per file."""
    if values and len(values) != len(labels):
        raise DataError(
            f"{option} is given {len(values)} times for {len(labels)} --labels files: give it "
            "once per file, in the same order"
        )
    return values or [""] * len(labels)


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _write(
    out: Path,
    measured: Sequence[MeasuredJudge],
    files: Sequence[LabelFile],
    scale: Scale,
    disagreements: int,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    data = json.dumps(judge_quality.to_json(measured), indent=2, ensure_ascii=False)
    (out / "judge-quality.json").write_text(data + "\n", encoding="utf-8")
    page = "\n".join(judge_quality.to_markdown(measured, disagreements)) + "\n"
    (out / "judge-quality.md").write_text(page, encoding="utf-8")
    for judge in measured:
        path = out / f"calibration-{re.sub(r'[^A-Za-z0-9.-]+', '_', judge.judge.name)}.json"
        try:
            found = judge.calibration(files, scale)
            calibration.write(path, found)
        except CalibrationError as fault:
            _say(f"no calibration of {judge.judge.name}: {fault}")
        else:
            unnamed = (
                ""
                if found.benchmarks
                else ("; it names no benchmark, so it decides nothing: give --benchmark NAME")
            )
            _say(f"wrote {path}{unnamed}")


def _say(line: str) -> None:
    echo(clean(line, 500), err=True)
