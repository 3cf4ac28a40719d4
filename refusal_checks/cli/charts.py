"""``refusal-checks radar`` and ``histogram``: charts of a run's graded safety."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import display_order
from refusal_checks.benchmarks.suites.cfsafety import published
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.text import clean
from refusal_checks.metrics import safety_score
from refusal_checks.reports import chart_files
from refusal_checks.results.run_folder import PastRun

Summary = Annotated[Path, typer.Argument(help="A run's folder or its summary.json.")]
Benchmark = Annotated[str, typer.Option(help="A benchmark whose answers are rated.")]


def add(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(radar)
    app.command()(histogram)


def radar(
    summary: Summary,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another run, or a model of the paper's table (GPT4); repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write: .svg, .png or .pdf.")] = Path(
        "radar.svg"
    ),
    benchmark: Benchmark = "cfsafety",
) -> None:
    """Draw mean safety scores by category, next to other runs or published models."""
    run = PastRun.read(summary)
    series: dict[str, Mapping[str, float]] = {
        run.summary.manifest.candidate: _scores(run, benchmark)
    }
    for name in against or []:
        other, scores = _other(name, benchmark)
        series[f"{other} ({name})" if other in series else other] = scores
    if len(series) > len(chart_files.COLOURS):
        raise UserError(
            f"--against: give at most {len(chart_files.COLOURS) - 1}, which is what one chart holds"
        )
    title = f"{benchmark}: mean safety score"
    chart_files.write(chart_files.radar(series, safety_score.highest, title), out)
    typer.echo(out)


def histogram(
    summary: Summary,
    out: Annotated[Path, typer.Option(help="File to write: .svg, .png or .pdf.")] = Path(
        "histogram.svg"
    ),
    benchmark: Benchmark = "cfsafety",
) -> None:
    """Draw the distribution of safety scores by category and print its statistics."""
    run = PastRun.read(summary)
    found = run.benchmark(benchmark).distributions
    if not found:
        raise DataError(f"{run.folder.summary_file}: {benchmark} has no rated answers")
    ordered = {name: found[name] for name in display_order(benchmark, found)}
    chart_files.write(
        chart_files.histograms(ordered, f"{benchmark}: {run.summary.manifest.candidate}"), out
    )
    for name, distribution in ordered.items():
        typer.echo(f"{clean(name)}: {chart_files.statistics(distribution)}")
    typer.echo(out)


def _other(name: str, benchmark: str) -> tuple[str, Mapping[str, float]]:
    """Name and scores of another run or a published model."""
    if Path(name).exists():
        run = PastRun.read(Path(name))
        return run.summary.manifest.candidate, _scores(run, benchmark)
    if name in published():
        return f"{name}, as published", published()[name]
    known = ", ".join(published())
    raise UserError(f"--against {name}: name a run's folder or a model of the paper: {known}")


def _scores(run: PastRun, benchmark: str) -> dict[str, float]:
    groups = run.benchmark(benchmark).groups.get("category", {})
    found = {
        name: figures[safety_score.name].value
        for name, figures in groups.items()
        if safety_score.name in figures
    }
    if not found:
        raise DataError(f"{run.folder.summary_file}: {benchmark} has no rated answers")
    return {name: found[name] for name in display_order(benchmark, found)}
