"""What is wrong beside missing data is said first: nothing waits for a download."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.project import Project

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no server": ({"candidate_model": "http://127.0.0.1:9/v1#m"}, "127.0.0.1:9"),
    "no judge's server": ({"judge_model": ["http://127.0.0.1:9/v1#m"]}, "127.0.0.1:9"),
    "judge": ({"judge_model": ["keywrod"]}, "keyword"),
    "labels": ({"trust_human_labels": "none.csv"}, "none.csv"),
    "runs": ({"reports_runs": "file"}, "file"),
    "store": ({"store_file": "."}, "is a folder"),
    "no baseline": ({"baseline_path": "none"}, "baseline accept"),
    "broken baseline": ({"baseline_path": "broken"}, "broken/xstest_safe.json"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_said_before_missing_data(project: Project, fault: str) -> None:
    project.thresholds("[xstest_safe]\nrejection_rate = { max = 0.1 }\n")
    for name in ("mirror", "broken"):
        (project.path / name).mkdir()
    project.write("broken/xstest_safe.json", "{")
    project.write("file", "")
    mirror = str(project.path / "mirror")
    project.refuses("xstest", data_mirror=mirror)
    keys, message = FAULTS[fault]
    said = project.refuses(message, data_mirror=mirror, **keys)
    assert mirror not in said
