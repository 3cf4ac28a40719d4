"""The runs below a folder: in any tree, each once, and what cannot be read is left out by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from refusal_checks.core.errors import DataError
from refusal_checks.results.many_runs import collect, started
from refusal_checks.results.run_folder import PastRun
from tests.many_runs import manifest
from tests.report_runs import refusals, write_run


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
    assert {one.path.parent.name for one in found.skipped} == {
        "broken", "foreign", "list", "empty", "newer", "a folder",
    }  # fmt: skip
    assert all(one.why for one in found.skipped)


def test_a_copy_of_a_run_is_left_out(tmp_path: Path) -> None:
    first = run(tmp_path / "one")
    shutil.copytree(first, tmp_path / "two")
    found = collect(tmp_path)
    assert len(found.runs) == 1
    assert [one.why for one in found.skipped] == [f"the same run as {first}/summary.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        collect(tmp_path / "none")
    assert collect(tmp_path).runs == ()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("2026-01-02T09:00:00+02:00", "2026-01-02 07:00"),
        ("2026-01-02T09:00:00", "2026-01-02 09:00"),
        ("2026-01-02", "2026-01-02 00:00"),
    ],
)
def test_a_start_is_read_in_any_zone(tmp_path: Path, said: str, shown: str) -> None:
    found = started(PastRun.read(run(tmp_path / "run", started=said)))
    assert found
    assert f"{found:%Y-%m-%d %H:%M}" == shown


def test_a_run_without_a_date_is_the_oldest(tmp_path: Path) -> None:
    run(tmp_path / "dated")
    run(tmp_path / "undated", started="yesterday")
    assert [each.folder.path.name for each in collect(tmp_path).runs] == ["undated", "dated"]
