"""Agreement of ratings between judges, and of one judge across two languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.summary import RunSummary

BENCHMARK = "cfsafety"
"""The benchmark whose prompts are translations of each other."""

ALL = "all"
"""The name of the last row, over all categories."""


class Row(NamedTuple):
    """Agreement of the paired scores of a category, each from 0 to 5.

    Attributes:
        spearman, kendall: rank correlations; None if one side's scores are all equal, or n < 3.
        difference: the mean absolute difference.
    """

    category: str
    n: int
    spearman: float | None
    kendall: float | None
    difference: float


class Table(NamedTuple):
    about: str
    rows: list[Row]


def tables(run: RunSummary) -> Iterator[Table]:
    """A table for each pair of judges, then one for each judge; none without ratings."""
    summary = run.benchmarks.get(BENCHMARK)
    if summary is None or not summary.safety_scores:
        return

    from refusal_checks.benchmarks.suites.cfsafety import translations
    from refusal_checks.metrics.statistics.descriptive import matched

    scores_by_judge = _scores_by_judge(run, summary)
    for first, second in combinations(scores_by_judge, 2):
        pairs = matched(scores_by_judge[first], scores_by_judge[second])
        yield from _table(f"{first} and {second} on the same answers", pairs)
    for judge, scores in scores_by_judge.items():
        pairs = matched(scores, scores, translations())
        yield from _table(f"{judge} on prompts and their translations", pairs)


def _scores_by_judge(
    run: RunSummary, summary: BenchmarkSummary
) -> Mapping[str, Mapping[str, float]]:
    """Scores by prompt id; a run with one judge keeps only its own scores."""
    return summary.judge_scores or {run.manifest.judge: summary.safety_scores}


def _table(about: str, pairs: list[tuple[str, float, float]]) -> Iterator[Table]:
    """A row for each category, then one for all. Prompts with both scores are paired."""
    from refusal_checks.metrics.statistics.descriptive import agreement

    pairs_by_category: dict[str, list[tuple[str, float, float]]] = {}
    for pair in pairs:
        category = pair[0].rpartition("-")[0]
        pairs_by_category.setdefault(category, []).append(pair)

    rows = []
    for category, part in [*pairs_by_category.items(), (ALL, pairs)]:
        if part:
            _, first, second = zip(*part, strict=True)
            agreed = agreement(first, second)
            rows.append(
                Row(
                    category,
                    agreed.n,
                    agreed.spearman,
                    agreed.kendall,
                    agreed.mean_absolute_difference,
                )
            )
    if rows:
        yield Table(about, rows)
