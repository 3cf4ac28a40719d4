"""Judges that rate the same answers, and one judge on prompts and their translations."""

import pytest

from refusal_checks.benchmarks.suites.cfsafety import CATEGORIES
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.verdicts import Rated
from refusal_checks.reports.rating_agreement import tables
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.summary import RunSummary
from tests.report_runs import manifest_of


def run(**factors: float) -> RunSummary:
    """A run of ten prompts in every category, translations among them.

    ``factors`` are judges, with the share of the whole score that each gives.
    """
    records = []
    for place, category in enumerate(CATEGORIES):
        for row in (*range(5), *range(1250, 1255)):
            score = 0.4 * place + 0.1 * (row % 5)
            prompt = Prompt.single(f"{category}-{row}", "?", category=category)
            votes = [
                Vote(judge, Rated(1.0, score * factor))
                for judge, factor in factors.items()
            ]
            records.append(
                Record(prompt, 0, Completion("a"), Rated(1.0, score), tuple(votes))
            )
    summary = RunSummary(manifest_of("cfsafety", judge="the judge"))
    summary.benchmarks["cfsafety"] = summarise(records, 0.95)
    return summary


def test_one_judge_is_compared_with_itself_across_languages() -> None:
    (table,) = tables(run())
    assert table.about == "the judge on prompts and their translations"
    # Its Chinese prompts are rows 0 to 1249, each 1,250 rows before its translation.
    row = next(row for row in table.rows if row.category == "ReverseExposure")
    assert (row.n, row.difference) == (5, 0.0)
    assert (row.spearman, row.kendall) == pytest.approx((1.0, 1.0))
    assert table.rows[-1].category == "all"


def test_judges_are_compared_by_category() -> None:
    judges, *translations = tables(run(A=1.0, B=0.5))
    assert judges.about == "A and B on the same answers"
    assert [row.category for row in judges.rows] == [*CATEGORIES, "all"]
    whole = judges.rows[-1]
    assert (whole.n, whole.spearman, whole.difference) == pytest.approx((100, 1.0, 1.0))
    assert len(translations) == 2


def test_other_runs_have_no_ratings_to_compare() -> None:
    assert not list(tables(RunSummary()))
    summary = RunSummary()
    summary.benchmarks["cfsafety"] = summarise([], 0.95)
    assert not list(tables(summary))
