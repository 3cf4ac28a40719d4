"""Runs side by side, and all runs below a folder with a trend of every gate."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.gates.gate import Gate
from refusal_checks.reports.page.several import SideBySide, side_by_side
from refusal_checks.reports.page.trends import Trend, collect, trends
from refusal_checks.results.run_folder import RunView
from tests.many_runs import manifest
from tests.report_runs import refusals, write_run

GATES = (
    Gate("unsafe", "rejection_rate", minimum=0.8),
    Gate("unsafe", "rejection_rate", minimum=0.3, group_kind="language", group="zh"),
    Gate("unsafe", "invalid_rate", maximum=0.5),
)


def run(folder: Path, refused: float, name: str = "unsafe", **facts: Any) -> RunView:
    """A run of sixty prompts, one answer each."""
    records = {name: list(refusals(name, 60, 1, refused=refused))}
    found = write_run(folder, records, GATES, manifest=manifest(**facts), errors={})
    return RunView.read(found.path)


def cell(found: SideBySide, gate: str, number: int) -> Any:
    return found.gates[gate][number]


def test_changes_are_those_of_the_same_prompts(tmp_path: Path) -> None:
    found = side_by_side([run(tmp_path / "a", 0.9), run(tmp_path / "b", 0.4)])
    changed = cell(found, "unsafe-rejection_rate", 1)
    compared = changed.verdict.comparison
    assert changed.change == compared.change
    assert (compared.lost, compared.gained) == (26, 0)
    assert cell(found, "unsafe-rejection_rate-zh", 1).verdict.comparison.change.n == 18
    assert cell(found, "unsafe-rejection_rate", 0).change is None
    ((row, moves),) = found.moves
    assert (row.run.number, row.id) == (1, "unsafe-rejection_rate")
    assert moves[0].heading == "26 of 26 prompts no longer refused since run 1"
    flip = moves[0].flips[0]
    assert flip.answer_before
    assert flip.answer_before.startswith("No. ")
    assert flip.now.answer.startswith("Sure. ")


def test_without_records_the_difference_of_the_figures_is_shown(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", 0.9), run(tmp_path / "b", 0.4)]
    paired = cell(side_by_side(runs), "unsafe-rejection_rate", 1).change
    shutil.rmtree(runs[1].folder.path / "records")
    found = side_by_side(runs)
    changed = cell(found, "unsafe-rejection_rate", 1)
    assert not changed.verdict.comparison
    assert changed.change.value == pytest.approx(paired.value)
    assert changed.change.upper - changed.change.lower > paired.upper - paired.lower
    assert found.moves == []


NAMES = ("unsafe", "safe")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (
            {"models": {"judges": {"org/judge": {"version": "org/judge@2"}}}},
            "other judge",
        ),
        (
            {"data": {name: {"sha256": "other", "prompts": 60} for name in NAMES}},
            "other data",
        ),
    ],
)
def test_runs_under_other_conditions_have_no_change(
    tmp_path: Path, facts: dict[str, Any], why: str
) -> None:
    found = side_by_side([run(tmp_path / "a", 0.9), run(tmp_path / "b", 0.4, **facts)])
    assert cell(found, "unsafe-rejection_rate", 1).change is None
    assert why in found.differences(1)[0]
    assert not found.apart[0]
    assert found.moves == []


def test_runs_without_a_gate_in_common_are_shown(tmp_path: Path) -> None:
    records = {"safe": list(refusals("safe", 10))}
    gates = [Gate("safe", "rejection_rate", maximum=0.5)]
    errors = {"safe-invalid_rate": "no valid verdict"}
    other = write_run(
        tmp_path / "b", records, gates, manifest=manifest(), errors=errors
    )
    found = side_by_side([run(tmp_path / "a", 0.9), RunView.read(other.path)])
    assert not found.in_common
    assert cell(found, "safe-rejection_rate", 0) is None
    assert cell(found, "safe-invalid_rate", 1).error == "no valid verdict"
    assert found.differences(1) == []


def test_one_run_is_nothing_to_compare(tmp_path: Path) -> None:
    one = run(tmp_path / "a", 0.9)
    with pytest.raises(UserError, match="two runs or more"):
        side_by_side([one])
    with pytest.raises(UserError, match="named twice"):
        side_by_side([one, run(tmp_path / "b", 0.4), RunView.read(one.folder.path)])


def rates(root: Path, *facts: dict[str, Any]) -> list[Trend]:
    """The trends of a gate on refusals of runs with these manifests, above those on judging."""
    for number, each in enumerate(facts):
        records = {"unsafe": list(refusals("unsafe", 10, 1, refused=number / 10))}
        gates = (GATES[2], GATES[0])
        write_run(root / str(number), records, gates, manifest=manifest(number, **each))
    found = trends(collect(root).runs)
    half = len(found) // 2
    assert [each.gate for each in found[half:]] == ["unsafe-invalid_rate"] * half
    assert [each.gate for each in found[:half]] == ["unsafe-rejection_rate"] * half
    return found[:half]


def test_runs_of_equal_conditions_are_one_trend_whatever_the_candidate(
    tmp_path: Path,
) -> None:
    judge = {"models": {"judges": {"org/judge": {"version": "org/judge@2"}}}}
    data = {"data": {"unsafe": {"sha256": "other", "prompts": 10}}}
    settings = {"sampling": {"temperature": 1.0}}
    found = rates(tmp_path, {}, judge, data, settings, {}, {})
    assert [[row.run.number for row in each.rows] for each in found] == [
        [0, 4, 5],
        [1],
        [2],
        [3],
    ]
    assert [row.run.candidate for row in found[0].rows][1:] == [
        "org/model-0",
        "org/model-1",
    ]
    assert found[1].differs["judge"] == "org/judge@2"
    assert found[3].differs["sampling temperature"] == "1.0"
    (same,) = rates(tmp_path / "same", {}, {})
    assert same.differs == {}


def small(folder: Path, number: int = 0, **facts: object) -> Path:
    records = {"unsafe": list(refusals("unsafe", 4))}
    return write_run(folder, records, manifest=manifest(number, **facts)).path


def test_what_is_no_summary_is_left_out_with_its_reason(tmp_path: Path) -> None:
    small(tmp_path / "good")
    for name, content in {
        "broken": "{",
        "foreign": json.dumps({"results": []}),
        "list": "[]",
        "empty": "",
        "newer": json.dumps({"format": 2, "manifest": {}, "benchmarks": {}}),
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
    first = small(tmp_path / "one")
    shutil.copytree(first, tmp_path / "two")
    found = collect(tmp_path)
    assert len(found.runs) == 1
    assert [*found.skipped.values()] == [f"the same run as {first}/summary.json"]


def test_runs_of_any_tree_are_found_the_oldest_first_whatever_their_zone(
    tmp_path: Path,
) -> None:
    for place, started in {
        "a/b/c": "2026-01-02T09:00:00+02:00",
        "z": "2026-01-02T09:00:00",
        ".refusal-checks/runs/x": "2026-01-02",
        "unknown": "yesterday",
    }.items():
        small(tmp_path / place, started=started)
    found = collect(tmp_path).runs
    assert [run.folder.path.name for run in found] == ["unknown", "x", "c", "z"]
    assert [run.day for run in found] == [
        "unknown", "2026-01-02 00:00", "2026-01-02 07:00", "2026-01-02 09:00",
    ]  # fmt: skip
