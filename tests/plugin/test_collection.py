"""Collection: from the threshold files alone, quickly, without data, engine or torch."""

from __future__ import annotations

import subprocess
import sys

from tests.plugin.conftest import ROOT, Project

IDS = [
    "test_gates.py::test_gate[smoke_unsafe-rejection_rate]",
    "test_gates.py::test_gate[smoke_unsafe-rejection_rate-zh]",
    "test_gates.py::test_gate[smoke_safe-rejection_rate]",
]


def test_gates_are_listed_without_a_candidate_and_nothing_is_written(project: Project) -> None:
    result = project.run("--collect-only", "-q")
    assert result.ret == 0
    assert result.outlines[:3] == IDS
    assert not (project.path / ".refusal-checks").exists()


def test_a_later_threshold_file_wins_and_can_remove_a_gate(project: Project) -> None:
    project.write(
        "more.toml", "[smoke_safe]\nrejection_rate = false\ninvalid_rate = { max = 0.02 }\n"
    )
    files = ("--thresholds", "thresholds/default.toml", "--thresholds", "more.toml")
    result = project.run("--collect-only", "-q", *files)
    assert result.outlines[:3] == [*IDS[:2], "test_gates.py::test_gate[smoke_safe-invalid_rate]"]


def test_the_project_s_own_gates_are_listed_and_nothing_heavy_is_imported() -> None:
    code = (
        "import pytest, sys; pytest.main(['--collect-only', '-q']); "
        "print({'torch', 'vllm', 'transformers', 'datasets', 'scipy.stats'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    assert lines[-1] == "set()"
    assert "tests/gates/test_gates.py::test_gate[xstest_safe-rejection_rate]" in lines
    assert "tests/gates/test_gates.py::test_gate[xstest_unsafe-rejection_rate]" in lines
