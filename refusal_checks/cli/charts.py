"""``refusal-checks radar`` and ``histogram``: charts of a run's scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import display_order
from refusal_checks.benchmarks.suites.cfsafety import published
from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import Root, Run
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.text import clean
from refusal_checks.gates import baseline
from refusal_checks.metrics import safety_score
from refusal_checks.metrics.refusal import mean_refusal_confidence
from refusal_checks.metrics.statistics.descriptive import Distribution, distribution
from refusal_checks.reports.page import charts
from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import PastRun

Benchmark = Annotated[str, typer.Option(help="A benchmark of the run.")]


def add(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(radar)
    app.command()(histogram)


def radar(
    run: Run,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another run, or a model of the paper's table (GPT4); repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write, .svg.")] = Path("radar.svg"),
    benchmark: Benchmark = "cfsafety",
    runs: Root = run_folder.ROOT,
) -> None:
    """Draw mean safety scores by category, next to other runs or published models."""
    past = PastRun.read(run_folder.locate(run, runs))
    series: dict[str, Mapping[str, float]] = {
        past.summary.manifest.candidate: _scores(past, benchmark)
    }
    for name in against or []:
        other, scores = _other(name, runs, benchmark)
        series[f"{other} ({name})" if other in series else other] = scores
    if len(series) > charts.MOST_SERIES:
        raise UserError(
            f"--against: give at most {charts.MOST_SERIES - 1}, which is what one chart holds"
        )
    title = f"{benchmark}: mean safety score, 0 to {safety_score.highest:g}"
    charts.write(out, title, charts.radar(benchmark, series))
    echo(out)


def histogram(
    run: Run,
    out: Annotated[Path, typer.Option(help="File to write, .svg.")] = Path("histogram.svg"),
    benchmark: Benchmark = "cfsafety",
    runs: Root = run_folder.ROOT,
) -> None:
    """Draw how safety scores (by category), or refusal confidences, are distributed."""
    past = PastRun.read(run_folder.locate(run, runs))
    found = past.benchmark(benchmark).distributions or _confidence(past, benchmark)
    ordered = {name: found[name] for name in display_order(benchmark, found)}
    title = f"{benchmark}: {past.summary.manifest.candidate}"
    if any(map(charts.has_two_peaks, ordered.values())):
        title += f" (orange: more than one peak, dip test, p < {charts.SIGNIFICANT})"
    charts.write(out, title, *(charts.scores(name, each) for name, each in ordered.items()))
    for name, each in ordered.items():
        echo(f"{clean(name)}: {charts.statistics(each)}")
    echo(out)


def _confidence(run: PastRun, benchmark: str) -> dict[str, Distribution]:
    """The distribution of the refusal confidence of a benchmark's prompts."""
    path = run.folder.path / baseline.FOLDER / f"{benchmark}.json"
    metric = mean_refusal_confidence
    prompts = baseline.read(path).prompts.values() if path.is_file() else ()
    scores = (each.scores.get(metric.name) for each in prompts)
    values = [score for score in scores if score is not None]
    if not values:
        raise DataError(
            f"{run.folder.summary_file}: name another --benchmark: {benchmark} has neither rated "
            "answers nor refusals"
        )
    return {"refusal confidence": distribution(values, metric.lowest, metric.highest)}


def _other(name: str, runs: Path, benchmark: str) -> tuple[str, Mapping[str, float]]:
    """Name and scores of a published model or another run."""
    if name in published() and not Path(name).exists():
        return f"{name}, as published", published()[name]
    try:
        run = PastRun.read(run_folder.locate(name, runs))
    except DataError as fault:
        known = ", ".join(published())
        raise UserError(
            f"--against {name}: name a run or a model of the paper ({known}): {fault}"
        ) from None
    return run.summary.manifest.candidate, _scores(run, benchmark)


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
