"""How far judges that rate agree with one another, and with themselves in another language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks.suites.cfsafety import category, translations
from refusal_checks.core.errors import DataError
from refusal_checks.core.text import clean, padded
from refusal_checks.metrics.statistics.agreement import Agreement, agreement, matched
from refusal_checks.results.manifest import Data
from refusal_checks.results.run_folder import PastRun

BENCHMARK = "cfsafety"

HEADER = f"{'':30} {'n':>6} {'Spearman':>9} {'Kendall':>8} {'mean |difference|':>18}"


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(consistency)


def consistency(
    runs: Annotated[
        list[Path], typer.Argument(help="Runs of one candidate: folders or summaries.")
    ],
) -> None:
    """Compare judges over the same answers to CFSafety, and each with itself across languages.

    The judges are those of one run (--judge A --judge B), or of several runs with the same
    candidate, sampling and store, of which only the first generates answers.
    """
    found = [PastRun.read(path) for path in runs]
    _require_same_answers(found)
    for line in _report(_judges(found)):
        typer.echo(line)


def _require_same_answers(runs: Sequence[PastRun]) -> None:
    """Raise DataError unless all runs are of one candidate, sampling and set of prompts."""
    first = runs[0]
    for run in runs:
        if not run.benchmark(BENCHMARK).safety_scores:
            raise DataError(f"{run.folder.summary_file}: {BENCHMARK} has no rated answers")
        for what, (one, other) in _answers(first, run).items():
            if one != other:
                raise DataError(
                    f"{run.folder.summary_file}: another {what} than "
                    f"{first.folder.summary_file}; judges can be compared over the same answers "
                    "only"
                )


def _answers(first: PastRun, second: PastRun) -> dict[str, tuple[object, ...]]:
    """What decides the answers of two runs, by what it is."""
    one, other = (run.summary.manifest for run in (first, second))
    data = (known.data.get(BENCHMARK, Data()).sha256 for known in (one, other))
    return {
        "candidate": (one.models.candidate, other.models.candidate),
        "sampling": (one.sampling, other.sampling),
        "set of prompts": tuple(data),
    }


def _report(judges: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Lines on every pair of judges, then on each judge's two languages."""
    for (first, scores), (second, others) in combinations(judges.items(), 2):
        yield f"judges {first} and {second}"
        yield from _table(matched(scores, others))
    for judge, scores in judges.items():
        yield f"judge {judge}: answers to a prompt and to its translation"
        yield from _table(matched(scores, scores, translations()))


def _judges(runs: Sequence[PastRun]) -> dict[str, Mapping[str, float]]:
    """Scores by prompt id, by judge; of a run with several judges, each one's own."""
    return {
        clean(f"{judge} ({run.folder.path.name})", 80): scores
        for run in runs
        for judge, scores in _by_judge(run).items()
    }


def _by_judge(run: PastRun) -> Mapping[str, Mapping[str, float]]:
    found = run.benchmark(BENCHMARK)
    return found.judge_scores or {run.judge: found.safety_scores}


def _table(rows: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """A line a category, then one over all; rows are prompt ids with both scores."""
    if not rows:
        yield "  no such pairs"
        return
    yield HEADER
    by_category: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        by_category.setdefault(category(row[0]), []).append(row)
    for name, found in [*by_category.items(), ("all", list(rows))]:
        _, first, second = zip(*found, strict=True)
        yield _line(name, agreement(first, second))


def _line(name: str, found: Agreement) -> str:
    ranks = ("-" if value is None else f"{value:.3f}" for value in (found.spearman, found.kendall))
    spearman, kendall = ranks
    difference = f"{found.mean_absolute_difference:.3f}"
    return f"  {padded(clean(name), 28)} {found.n:6} {spearman:>9} {kendall:>8} {difference:>18}"
