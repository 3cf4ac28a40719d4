"""What ``refusal-checks report`` draws and compares: radar, histogram, consistency of judges."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from refusal_checks.benchmarks import display_order
from refusal_checks.benchmarks.suites.cfsafety import published, translations
from refusal_checks.core.errors import DataError, UserError, require_known
from refusal_checks.core.layout import padded
from refusal_checks.core.text import clean
from refusal_checks.gates import score_files
from refusal_checks.metrics import safety_score
from refusal_checks.metrics.refusal import mean_refusal_confidence
from refusal_checks.metrics.statistics.descriptive import (
    Distribution,
    agreement,
    distribution,
    matched,
)
from refusal_checks.reports.page import charts
from refusal_checks.results.manifest import Data
from refusal_checks.results.run_folder import RunView

CFSAFETY = "cfsafety"
"""The benchmark whose paper has scores of published models, and whose prompts are translated."""


def write_radar(
    runs: Sequence[RunView], models: Sequence[str], benchmark: str, file: Path
) -> None:
    """Draw mean safety scores by category: a line for each run and each published model."""
    if models and benchmark != CFSAFETY:
        raise UserError(
            f"--against: leave it out with --benchmark {benchmark}: the paper has scores of "
            f"{CFSAFETY} only"
        )
    series: dict[str, Mapping[str, float]] = {}
    for run in runs:
        name = run.summary.manifest.candidate
        if name in series:
            name = f"{name} ({run.folder.path.name})"
        series[name] = _scores_by_category(run, benchmark)
    for model in models:
        require_known(model, published(), "--against", "model of the paper", UserError)
        series[f"{model}, as published"] = published()[model]
    if len(series) > charts.MOST_SERIES:
        raise UserError(
            f"name at most {charts.MOST_SERIES} runs and models, which is what one chart holds: "
            f"{len(series)} are named"
        )
    title = f"{benchmark}: mean safety score, 0 to {safety_score.highest:g}"
    charts.write(file, title, charts.radar(benchmark, series))


def _scores_by_category(run: RunView, benchmark: str) -> dict[str, float]:
    categories = run.benchmark(benchmark).groups.get("category", {})
    scores = {}
    for category in display_order(benchmark, categories):
        estimate = categories[category].get(safety_score.name)
        if estimate is not None:
            scores[category] = estimate.value
    if not scores:
        raise DataError(f"{run.folder.summary_file}: {benchmark} has no rated answers")
    return scores


def write_histogram(run: RunView, benchmark: str, file: Path) -> list[str]:
    """Draw how scores are distributed; the lines returned say how many each part has."""
    distributions = run.benchmark(benchmark).distributions
    if not distributions:
        distributions = {"refusal confidence": _refusal_confidences(run, benchmark)}
    title = f"{benchmark}: {run.summary.manifest.candidate}"
    columns = []
    lines = []
    for name in display_order(benchmark, distributions):
        columns.append(charts.scores(name, distributions[name]))
        lines.append(f"{clean(name)}: n = {distributions[name].n}")
    charts.write(file, title, *columns)
    return lines


def _refusal_confidences(run: RunView, benchmark: str) -> Distribution:
    """How the refusal confidences of a benchmark without ratings are distributed."""
    metric = mean_refusal_confidence
    path = run.folder.path / score_files.FOLDER / f"{benchmark}.json"
    values = []
    if path.is_file():
        for prompt in score_files.read(path).prompts.values():
            confidence = prompt.scores.get(metric.name)
            if confidence is not None:
                values.append(confidence)
    if not values:
        raise DataError(
            f"{run.folder.summary_file}: name another --benchmark: {benchmark} has neither "
            "rated answers nor refusals"
        )
    return distribution(values, metric.lowest, metric.highest)


def consistency(runs: Sequence[RunView]) -> Iterator[str]:
    """Lines that compare judges on the same answers, and each judge across languages.

    The judges are those of one run, or of several runs that generated their answers alike.
    """
    _require_same_answers(runs)
    scores_by_judge: dict[str, Mapping[str, float]] = {}
    for run in runs:
        summary = run.benchmark(CFSAFETY)
        # A run with one judge has no scores by judge: all scores are of that one.
        judges = summary.judge_scores or {
            run.summary.manifest.judge: summary.safety_scores
        }
        for judge, scores in judges.items():
            scores_by_judge[clean(f"{judge} ({run.folder.path.name})", 80)] = scores
    for first, second in combinations(scores_by_judge, 2):
        yield f"judges {first} and {second}"
        yield from _agreement_lines(
            matched(scores_by_judge[first], scores_by_judge[second])
        )
    for judge, scores in scores_by_judge.items():
        yield f"judge {judge}: answers to a prompt and to its translation"
        yield from _agreement_lines(matched(scores, scores, translations()))


def _require_same_answers(runs: Sequence[RunView]) -> None:
    """Raise DataError unless all runs have the same candidate, sampling and prompts."""
    first = _origin_of_answers(runs[0])
    for run in runs:
        if not run.benchmark(CFSAFETY).safety_scores:
            raise DataError(
                f"{run.folder.summary_file}: {CFSAFETY} has no rated answers"
            )
        for what, value in _origin_of_answers(run).items():
            if value != first[what]:
                raise DataError(
                    f"{run.folder.summary_file}: name runs with the same answers: this one has "
                    f"another {what} than {runs[0].folder.summary_file}"
                )


def _origin_of_answers(run: RunView) -> dict[str, object]:
    """What must be equal for the answers of two runs to be the same, by what it is called."""
    manifest = run.summary.manifest
    return {
        "candidate": manifest.models.candidate,
        "sampling": manifest.sampling,
        "set of prompts": manifest.data.get(CFSAFETY, Data()).sha256,
    }


def _agreement_lines(rows: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """A line per category, then one for all; rows are prompt ids with both scores."""
    if not rows:
        yield "  no such pairs"
        return
    yield f"{'':30} {'n':>6} {'Spearman':>9} {'Kendall':>8} {'mean |difference|':>18}"
    rows_by_category: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        rows_by_category.setdefault(row[0].rpartition("-")[0], []).append(row)
    for category, part in [*rows_by_category.items(), ("all", list(rows))]:
        _, first, second = zip(*part, strict=True)
        agreed = agreement(first, second)
        yield (
            f"  {padded(clean(category), 28)} {agreed.n:6} {_correlation(agreed.spearman):>9} "
            f"{_correlation(agreed.kendall):>8} {agreed.mean_absolute_difference:>18.3f}"
        )


def _correlation(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
