"""The runs below a folder, each once, and a trend for each gate and each set of conditions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import DataError
from refusal_checks.gates.gate import Gate
from refusal_checks.reports.page.several import Trend, collect, trends
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
    return trends(collect(root).runs)


def test_runs_of_equal_conditions_are_one_trend_whatever_the_candidate(tmp_path: Path) -> None:
    rate, invalid = found(tmp_path, {}, {}, {})
    assert (rate.gate, invalid.gate) == ("unsafe-rejection_rate", "unsafe-invalid_rate")
    assert [row.run.number for row in rate.rows] == [0, 1, 2]
    assert [row.run.candidate for row in rate.rows] == [
        "org/model-0", "org/model-1", "org/model-2",
    ]  # fmt: skip
    assert rate.differs == {}


def test_runs_of_other_conditions_are_never_joined(tmp_path: Path) -> None:
    judge = {"models": {"judges": {"org/judge": {"version": "org/judge@2"}}}}
    data = {"data": {"unsafe": {"sha256": "other", "prompts": 10}}}
    settings = {"sampling": {"temperature": 1.0}}
    every = found(tmp_path, {}, judge, data, settings, {})
    rates = [each for each in every if each.gate == "unsafe-rejection_rate"]
    assert [[row.run.number for row in each.rows] for each in rates] == [
        [0, 4], [1], [2], [3],
    ]  # fmt: skip
    assert rates[1].differs["judge"] == "org/judge@2"
    assert rates[3].differs["sampling temperature"] == "1.0"


def test_conditions_that_were_not_recorded_are_like_no_others(tmp_path: Path) -> None:
    every = found(tmp_path, {"data": {}}, {"data": {}})
    rates = [each for each in every if each.gate == "unsafe-rejection_rate"]
    assert [len(each.rows) for each in rates] == [1, 1]
    assert rates[0].differs["conditions"] == "not recorded by run 1"


def run(folder: Path, number: int = 0, **facts: object) -> Path:
    records = {"unsafe": list(refusals("unsafe", 4))}
    return write_run(folder, records, manifest=manifest(number, **facts)).path


def test_runs_of_any_tree_are_found_the_oldest_first(tmp_path: Path) -> None:
    for number, place in ((2, "a/b/c"), (0, "z"), (1, ".refusal-checks/runs/x")):
        run(tmp_path / place, number)
    assert [found.folder.path.name for found in collect(tmp_path).runs] == ["z", "x", "c"]
    assert [found.folder.path.name for found in collect(tmp_path / "z").runs] == ["z"]


def test_what_is_no_summary_is_left_out_with_its_reason(tmp_path: Path) -> None:
    run(tmp_path / "good")
    for name, content in {
        "broken": "{",
        "foreign": json.dumps({"results": []}),
        "list": "[]",
        "empty": "",
        "newer": json.dumps({"manifest": {}, "benchmarks": {"b": {"prompts": "many"}}}),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(content)
    (tmp_path / "a folder" / "summary.json").mkdir(parents=True)
    found = collect(tmp_path)
    assert len(found.runs) == 1
    assert {path.parent.name for path in found.skipped} == {
        "broken", "foreign", "list", "empty", "newer", "a folder",
    }  # fmt: skip
    assert all(found.skipped.values())


def test_a_copy_of_a_run_is_left_out(tmp_path: Path) -> None:
    first = run(tmp_path / "one")
    shutil.copytree(first, tmp_path / "two")
    found = collect(tmp_path)
    assert len(found.runs) == 1
    assert [*found.skipped.values()] == [f"the same run as {first}/summary.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        collect(tmp_path / "none")
    assert not collect(tmp_path).runs


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("2026-01-02T09:00:00+02:00", "2026-01-02 07:00"),
        ("2026-01-02T09:00:00", "2026-01-02 09:00"),
        ("2026-01-02", "2026-01-02 00:00"),
    ],
)
def test_a_start_is_read_in_any_zone(tmp_path: Path, said: str, shown: str) -> None:
    run(tmp_path / "run", started=said)
    assert [found.day for found in collect(tmp_path).runs] == [shown]


def test_a_run_without_a_date_is_the_oldest(tmp_path: Path) -> None:
    run(tmp_path / "dated")
    run(tmp_path / "undated", started="yesterday")
    assert [each.folder.path.name for each in collect(tmp_path).runs] == ["undated", "dated"]
