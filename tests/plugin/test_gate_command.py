"""``refusal-checks gate`` in a repository whose own pytest configuration would stop any run."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from refusal_checks.plugin.options import OPTIONS
from tests.plugin.conftest import (
    KEYWORD,
    THRESHOLDS,
    Project,
    careless,
    refused,
    shown,
)
from tests.support import fake_engines

pytestmark = pytest.mark.slow

HOSTILE = """
[project]
name = "theirs"

[tool.pytest.ini_options]
addopts = ["--no-such-option", "-p", "no_such_plugin"]
filterwarnings = ["error"]
markers = ["sanity: theirs"]
required_plugins = ["pytest-no-such"]
"""
FEW = ("--thresholds=gates/few.toml", "--samples=1")


@pytest.fixture
def theirs(project: Project) -> Project:
    """The repository, with a run file of its own."""
    project.path = project.path / "their repository"
    project.write("pyproject.toml", HOSTILE)
    project.write("conftest.py", "raise SystemExit('their conftest.py was run')")
    project.write("gates/few.toml", THRESHOLDS)
    project.patch.chdir(project.path)
    for name in [
        name for name in os.environ if name.startswith(("REFUSAL_CHECKS_", "GITHUB"))
    ]:
        project.patch.delenv(name)
    project.setenv("PYTEST_ADDOPTS", "--no-such-option")
    return project


def gate(project: Project, *words: str | Path) -> pytest.RunResult:
    return project.command("gate", *words)


def test_a_model_is_gated_from_any_folder(theirs: Project) -> None:
    theirs.server.answer = careless
    files = ("--junitxml", "report.xml", "--html", "report.html")
    result = gate(theirs, theirs.model, *KEYWORD, *FEW, "-k", "not zh", *files, "-n2")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*their conftest.py*")
    result.stdout.fnmatch_lines(
        ["FAILED smoke_unsafe-rejection_rate - Refuses 0% of *"]
    )
    cases = ET.parse("report.xml").iter("testcase")
    failed = [
        (case.get("classname"), case.get("name"))
        for case in cases
        if case.find("failure") is not None
    ]
    name = "test_gate[smoke_unsafe-rejection_rate]"
    assert failed == [("refusal_checks.smoke_unsafe", name)]
    assert len(theirs.runs) == 1
    assert (theirs.path / ".refusal-checks" / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in theirs.path.iterdir()) == [
        *(".refusal-checks", "conftest.py", "gates", "pyproject.toml"),
        *("report.html", "report.xml"),
    ]


def test_the_repository_s_default_file_is_found_else_the_shipped_one(
    theirs: Project,
) -> None:
    test = "refusal_checks/suite.py::test_gate[{}-rejection_rate]"
    result = gate(theirs, "--collect-only", "-q")
    assert result.ret == 0
    assert result.outlines[0] == "refusal_checks/suite.py::test_judge[specificity]"
    assert test.format("xstest_safe") in result.outlines
    result = gate(theirs, "a/b", "--judge=keyword")
    assert "these gates come with refusal-checks" in shown(result)
    theirs.thresholds(THRESHOLDS)
    result = gate(theirs, "--collect-only", "-q")
    result.stdout.no_fnmatch_line("*xstest*")
    assert test.format("smoke_safe") in result.outlines
    result = gate(theirs, "--collect-only", "-q", "--thresholds=default", "-W", "error")
    assert test.format("xstest_safe") in result.outlines, "this names the shipped one"


def test_a_model_s_folder_and_other_paths_may_follow_a_space(theirs: Project) -> None:
    folder = theirs.path.parent / "models" / "checkpoint-9000"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "conftest.py").write_text(
        "raise SystemExit('code of a checkpoint was run')"
    )
    fake_engines.install(theirs.path)
    theirs.write("my store.sqlite", "")
    few = ("--thresholds", theirs.path / "gates" / "few.toml", "-k", "smoke_safe")
    store = ("--store", "my store.sqlite", "--set=store.only=true")
    result = gate(theirs, folder, "-v", *KEYWORD, *few, *store)
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*code of a checkpoint*")
    assert f"candidate {folder}" in result.stdout.str()


def test_help_fits_a_screen_and_leads_to_pytest_s_own(theirs: Project) -> None:
    theirs.setenv("COLUMNS", "80")
    result = gate(theirs, "ORG/MODEL", "-h", *KEYWORD)
    assert result.ret == 0
    assert result.outlines[0] == "usage: refusal-checks gate MODEL [options]"
    assert result.outlines[-1].endswith("--help-pytest lists them all.")
    assert len(result.outlines) <= 60
    assert max(map(len, result.outlines)) <= 80
    assert [line.split()[0] for line in result.outlines if line[:4] == "  --"] == [
        f"--{option.name}" for option in OPTIONS
    ]


def test_a_stranger_s_judge_that_cannot_be_built_is_named_with_its_line(
    project: Project,
) -> None:
    project.write("thresholds/strict.py", "def build(setup):\n    return {}['none']\n")
    project.write("said.csv", "prompt,completion\nHello,Hi\n")
    project.thresholds(
        'extensions = ["strict.py"]\n[ours]\nfile = "../said.csv"\nexpect = "answer"\n'
        'judge = "strict"\nrejection_rate = { max = 0.5 }\n'
    )
    result = gate(project, "replay:said.csv", *KEYWORD)
    refused(result, "strict.py:2: this extension raised KeyError")
