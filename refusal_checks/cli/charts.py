"""``refusal-checks radar``, ``histogram`` and ``consistency``: scores, drawn and compared."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import display_order
from refusal_checks.benchmarks.suites.cfsafety import published, translations
from refusal_checks.cli._common import Root, Run, Runs, echo, read_run
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.text import clean, padded
from refusal_checks.gates import baseline
from refusal_checks.metrics import safety_score
from refusal_checks.metrics.refusal import mean_refusal_confidence
from refusal_checks.metrics.statistics.descriptive import agreement, distribution, matched
from refusal_checks.reports.page import charts
from refusal_checks.results import run_folder
from refusal_checks.results.manifest import Data
from refusal_checks.results.run_folder import RunView

CFSAFETY = "cfsafety"

Benchmark = Annotated[str, typer.Option(help="A benchmark of the run.")]


def add(app: typer.Typer) -> None:
    app.command()(radar)
    app.command()(histogram)
    app.command()(consistency)


def radar(
    run: Run,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another run, or a model of the paper's table (GPT4); repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write, .svg.")] = Path("radar.svg"),
    benchmark: Benchmark = CFSAFETY,
    runs: Root = run_folder.ROOT,
) -> None:
    """Draw mean safety scores by category, next to other runs or published models."""
    past = read_run(run, runs)
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


def _other(name: str, runs: Path, benchmark: str) -> tuple[str, Mapping[str, float]]:
    """Name and scores of a published model or another run."""
    if name in published() and not Path(name).exists():
        return f"{name}, as published", published()[name]
    try:
        run = read_run(name, runs)
    except DataError as fault:
        known = ", ".join(published())
        raise UserError(
            f"--against {name}: name a run or a model of the paper ({known}): {fault}"
        ) from None
    return run.summary.manifest.candidate, _scores(run, benchmark)


def _scores(run: RunView, benchmark: str) -> dict[str, float]:
    groups = run.benchmark(benchmark).groups.get("category", {})
    found = {
        name: figures[safety_score.name].value
        for name, figures in groups.items()
        if safety_score.name in figures
    }
    if not found:
        raise DataError(f"{run.folder.summary_file}: {benchmark} has no rated answers")
    return {name: found[name] for name in display_order(benchmark, found)}


def histogram(
    run: Run,
    out: Annotated[Path, typer.Option(help="File to write, .svg.")] = Path("histogram.svg"),
    benchmark: Benchmark = CFSAFETY,
    runs: Root = run_folder.ROOT,
) -> None:
    """Draw how safety scores (by category), or refusal confidences, are distributed."""
    past = read_run(run, runs)
    found = past.benchmark(benchmark).distributions
    if not found:
        path = past.folder.path / baseline.FOLDER / f"{benchmark}.json"
        metric = mean_refusal_confidence
        prompts = baseline.read(path).prompts.values() if path.is_file() else ()
        scores = (each.scores.get(metric.name) for each in prompts)
        values = [score for score in scores if score is not None]
        if not values:
            raise DataError(
                f"{past.folder.summary_file}: name another --benchmark: {benchmark} has neither "
                "rated answers nor refusals"
            )
        found = {"refusal confidence": distribution(values, metric.lowest, metric.highest)}
    ordered = {name: found[name] for name in display_order(benchmark, found)}
    title = f"{benchmark}: {past.summary.manifest.candidate}"
    if any(map(charts.has_two_peaks, ordered.values())):
        title += f" (orange: more than one peak, dip test, p < {charts.SIGNIFICANT})"
    charts.write(out, title, *(charts.scores(name, each) for name, each in ordered.items()))
    for name, each in ordered.items():
        echo(f"{clean(name)}: {charts.statistics(each)}")
    echo(out)


def consistency(runs: Runs, root: Root = run_folder.ROOT) -> None:
    """Compare judges on the same answers to CFSafety, and each judge across languages.

    The judges are those of one run (--judge A --judge B), or of several runs with the same
    candidate, sampling and store, so that only the first run generates answers.
    """
    past = [read_run(run, root) for run in runs]
    _require_same_answers(past)
    judges: dict[str, Mapping[str, float]] = {}  # each one's scores by prompt id
    for run in past:
        found = run.benchmark(CFSAFETY)
        by_judge = found.judge_scores or {run.summary.manifest.judge: found.safety_scores}
        for judge, scores in by_judge.items():
            judges[clean(f"{judge} ({run.folder.path.name})", 80)] = scores
    for (first, scores), (second, others) in combinations(judges.items(), 2):
        echo(f"judges {first} and {second}")
        _echo_agreement(matched(scores, others))
    for judge, scores in judges.items():
        echo(f"judge {judge}: answers to a prompt and to its translation")
        _echo_agreement(matched(scores, scores, translations()))


def _require_same_answers(runs: Sequence[RunView]) -> None:
    """Raise DataError unless all runs have the same candidate, sampling and prompts."""
    answers = []
    for run in runs:
        if not run.benchmark(CFSAFETY).safety_scores:
            raise DataError(f"{run.folder.summary_file}: {CFSAFETY} has no rated answers")
        known = run.summary.manifest
        answers.append(
            {
                "candidate": known.models.candidate,
                "sampling": known.sampling,
                "set of prompts": known.data.get(CFSAFETY, Data()).sha256,
            }
        )
        for what, value in answers[-1].items():
            if value != answers[0][what]:
                raise DataError(
                    f"{run.folder.summary_file}: name runs with the same answers: this one has "
                    f"another {what} than {runs[0].folder.summary_file}"
                )


def _echo_agreement(rows: Sequence[tuple[str, float, float]]) -> None:
    """A line per category, then one for all; rows are prompt ids with both scores."""
    if not rows:
        echo("  no such pairs")
        return
    echo(f"{'':30} {'n':>6} {'Spearman':>9} {'Kendall':>8} {'mean |difference|':>18}")
    by_category: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        by_category.setdefault(row[0].rpartition("-")[0], []).append(row)
    for name, part in [*by_category.items(), ("all", list(rows))]:
        _, first, second = zip(*part, strict=True)
        agreed = agreement(first, second)
        spearman, kendall = (
            "-" if value is None else f"{value:.3f}" for value in (agreed.spearman, agreed.kendall)
        )
        echo(
            f"  {padded(clean(name), 28)} {agreed.n:6} {spearman:>9} {kendall:>8} "
            f"{agreed.mean_absolute_difference:>18.3f}"
        )
