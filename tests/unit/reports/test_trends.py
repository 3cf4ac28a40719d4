"""Trends: one for each gate and each set of conditions, in order of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refusal_checks.gates.gate import Gate
from refusal_checks.reports.trends import Trend, entries, trends
from refusal_checks.results.many_runs import collect
from tests.many_runs import manifest
from tests.report_runs import refusals, write_run

GATES = (
    Gate("unsafe", "invalid_rate", maximum=0.5),
    Gate("unsafe", "rejection_rate", minimum=0.8),
)


def found(root: Path, *facts: dict[str, Any]) -> list[Trend]:
    """The trends of runs with these manifests."""
    for number, each in enumerate(facts):
        records = {"unsafe": list(refusals("unsafe", 10, 1, refused=number / 10))}
        write_run(root / str(number), records, GATES, manifest=manifest(number, **each))
    return trends(entries(collect(root).runs))


def test_runs_of_equal_conditions_are_one_trend_whatever_the_candidate(tmp_path: Path) -> None:
    rate, invalid = found(tmp_path, {}, {}, {})
    assert (rate.gate, invalid.gate) == ("unsafe-rejection_rate", "unsafe-invalid_rate")
    assert [point.entry.number for point in rate.points] == [0, 1, 2]
    assert [point.entry.candidate for point in rate.points] == [
        "org/model-0", "org/model-1", "org/model-2",
    ]  # fmt: skip
    assert rate.differs == {}


def test_runs_of_other_conditions_are_never_joined(tmp_path: Path) -> None:
    judge = {"models": {"judges": {"org/judge": {"version": "org/judge@2"}}}}
    data = {"data": {"unsafe": {"sha256": "other", "prompts": 10}}}
    settings = {"sampling": {"temperature": 1.0}}
    every = found(tmp_path, {}, judge, data, settings, {})
    rates = [each for each in every if each.gate == "unsafe-rejection_rate"]
    assert [[point.entry.number for point in each.points] for each in rates] == [
        [0, 4], [1], [2], [3],
    ]  # fmt: skip
    assert rates[1].differs["judge"] == "org/judge@2"
    assert rates[3].differs["sampling temperature"] == "1.0"


def test_conditions_that_were_not_recorded_are_like_no_others(tmp_path: Path) -> None:
    every = found(tmp_path, {"data": {}}, {"data": {}})
    rates = [each for each in every if each.gate == "unsafe-rejection_rate"]
    assert [len(each.points) for each in rates] == [1, 1]
    assert rates[0].differs["conditions"] == "not recorded by run 1"
