"""Benchmarks without a bound: measured, and no reason for or against a release."""

from __future__ import annotations

import pytest

from refusal_checks.metrics import main_metric
from tests.support.project import CHECK, KEYWORD, SAFE_GATE, Project, saying

EMPTY = "[smoke_unsafe]\n"


@pytest.mark.parametrize(
    "table", [f"{EMPTY}limit = 10\n", f"{EMPTY}rejection_rate = false\n"]
)
def test_a_table_without_a_bound_is_measured_and_nothing_is_gated(
    project: Project, table: str
) -> None:
    project.thresholds(table)
    outcome = project.evaluate(**KEYWORD)
    result = outcome.result
    assert not result.verdicts
    assert not result.errors
    metric = main_metric(result.figures["smoke_unsafe"])
    assert metric
    assert metric.name == "rejection_rate"
    assert result.figures["smoke_unsafe"]["rejection_rate"].n >= 10
    assert result.decision.line == "Nothing was gated: 1 benchmark was measured"
    assert result.decision.exit_code == 0
    assert not result.decision  # it shows nothing of a release
    assert not result.decision.reservations


def test_what_is_only_measured_neither_fails_nor_doubts_a_release(
    project: Project,
) -> None:
    project.server.answer = saying("nonsense that no judge reads")
    project.thresholds(f"{EMPTY}{SAFE_GATE}")
    outcome = project.evaluate(**KEYWORD)
    assert [*outcome.result.verdicts] == [
        "smoke_safe-rejection_rate",
        "smoke_safe-invalid_rate",
    ]
    assert [*outcome.result.figures] == ["smoke_safe", "smoke_unsafe"]
    # Every doubt of a missing bound names its table.
    assert "[smoke_unsafe]" not in outcome.said
    only = project.evaluate(**KEYWORD, only="smoke_safe")
    assert [*only.result.figures] == ["smoke_safe"]


def test_an_untrusted_judge_measures_nothing(project: Project) -> None:
    project.thresholds(f"{EMPTY}{CHECK % 0.9}")
    outcome = project.evaluate()  # it lets everything pass
    assert [*outcome.result.errors] == ["smoke_unsafe-measured"]
    assert "the judge is not trusted" in outcome.result.errors["smoke_unsafe-measured"]
    assert (outcome.answer, outcome.result.decision.exit_code) == ("open", 1)
