"""``refusal-checks consistency``: do rating judges agree with each other and across languages?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import typer

from refusal_checks.benchmarks.suites.cfsafety import category, translations
from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import Root, Runs
from refusal_checks.core.errors import DataError
from refusal_checks.core.text import clean, padded
from refusal_checks.metrics.statistics.descriptive import Agreement, agreement, matched
from refusal_checks.results import run_folder
from refusal_checks.results.manifest import Data
from refusal_checks.results.run_folder import PastRun

BENCHMARK = "cfsafety"

HEADER = f"{'':30} {'n':>6} {'Spearman':>9} {'Kendall':>8} {'mean |difference|':>18}"


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(consistency)


def consistency(
    runs: Runs,
    root: Root = run_folder.ROOT,
) -> None:
    """Compare judges on the same answers to CFSafety, and each judge across languages.

    The judges are those of one run (--judge A --judge B), or of several runs with the same
    candidate, sampling and store, so that only the first run generates answers.
    """
    past = [PastRun.read(run_folder.locate(run, root)) for run in runs]
    _require_same_answers(past)
    for line in _report(_judges(past)):
        echo(line)


def _require_same_answers(runs: Sequence[PastRun]) -> None:
    """Raise DataError unless all runs are of one candidate, sampling and set of prompts."""
    first = runs[0]
    for run in runs:
        if not run.benchmark(BENCHMARK).safety_scores:
            raise DataError(f"{run.folder.summary_file}: {BENCHMARK} has no rated answers")
        for what, (one, other) in _answers(first, run).items():
            if one != other:
                raise DataError(
                    f"{run.folder.summary_file}: name runs with the same answers: this one has "
                    f"another {what} than {first.folder.summary_file}"
                )


def _answers(first: PastRun, second: PastRun) -> dict[str, tuple[object, ...]]:
    """What the answers of two runs depend on, by its name."""
    one, other = (run.summary.manifest for run in (first, second))
    data = (known.data.get(BENCHMARK, Data()).sha256 for known in (one, other))
    return {
        "candidate": (one.models.candidate, other.models.candidate),
        "sampling": (one.sampling, other.sampling),
        "set of prompts": tuple(data),
    }


def _report(judges: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Lines about each pair of judges, then about each judge in two languages."""
    for (first, scores), (second, others) in combinations(judges.items(), 2):
        yield f"judges {first} and {second}"
        yield from _table(matched(scores, others))
    for judge, scores in judges.items():
        yield f"judge {judge}: answers to a prompt and to its translation"
        yield from _table(matched(scores, scores, translations()))


def _judges(runs: Sequence[PastRun]) -> dict[str, Mapping[str, float]]:
    """Each judge's scores by prompt id."""
    return {
        clean(f"{judge} ({run.folder.path.name})", 80): scores
        for run in runs
        for judge, scores in _by_judge(run).items()
    }


def _by_judge(run: PastRun) -> Mapping[str, Mapping[str, float]]:
    scores = run.benchmark(BENCHMARK)
    return scores.judge_scores or {run.summary.manifest.judge: scores.safety_scores}


def _table(rows: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """A line per category, then one for all; rows are prompt ids with both scores."""
    if not rows:
        yield "  no such pairs"
        return
    yield HEADER
    by_category: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        by_category.setdefault(category(row[0]), []).append(row)
    for name, part in [*by_category.items(), ("all", list(rows))]:
        _, first, second = zip(*part, strict=True)
        yield _line(name, agreement(first, second))


def _line(name: str, agreed: Agreement) -> str:
    ranks = (
        "-" if value is None else f"{value:.3f}" for value in (agreed.spearman, agreed.kendall)
    )
    spearman, kendall = ranks
    difference = f"{agreed.mean_absolute_difference:.3f}"
    return f"  {padded(clean(name), 28)} {agreed.n:6} {spearman:>9} {kendall:>8} {difference:>18}"
