"""What no linter sees of the pipelines: their own steps gate in a repository of others.

The steps of gate.yml, and the script that ``refusal-checks init`` writes for GitLab and Jenkins,
are run as they are written, where pytest is configured for other tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from refusal_checks.cli.init import TEMPLATES

ROOT = Path(__file__).parents[2]
GATE: dict[str, Any] = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "gate.yml")
STEPS = GATE["jobs"]["gate"]["steps"]
NAMES = ("CANDIDATE", "JUDGE", "THRESHOLDS", "BASELINE", "ARGS", "HF_FOLDER")


def script(name: str) -> str:
    """A step's commands."""
    (found,) = (step["run"] for step in STEPS if step.get("name") == name)
    return str(found)


def paths(action: str) -> list[str]:
    """Files that the steps with an action keep."""
    found = (step["with"]["path"] for step in STEPS if action in step.get("uses", ""))
    return [line for text in found for line in text.split()]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A repository with recorded answers, and pytest set up for tests of its own."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = ["--cov=src"]\nfilterwarnings = ["error"]\n'
    )
    (folder / "conftest.py").write_text("raise SystemExit('their conftest.py was run')")
    (folder / "answers.jsonl").write_text('{"prompt": "Hi", "completion": "Hello"}\n' * 2)
    (folder / "our.toml").write_text('[ours]\nfile = "answers.jsonl"\nexpect = "answer"\n')
    return folder


def command(folder: Path, code: str) -> Path:
    """A folder like an environment's, whose ``refusal-checks`` runs that code."""
    path = folder / "venv" / "bin" / "refusal-checks"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
    path.chmod(0o755)
    return path.parents[1]


def run(commands: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if "GITHUB" not in name}
    environment = {**kept, **dict.fromkeys(NAMES, ""), **variables}
    words = ["bash", "-e", "-c", commands]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


REAL = "from refusal_checks.cli import main; main()"


def test_the_steps_keep_what_the_run_writes_in_a_repository_of_others(theirs: Path) -> None:
    venv = command(theirs.parent, REAL)
    given = {"CANDIDATE": "replay:answers.jsonl", "JUDGE": "keyword", "THRESHOLDS": "our.toml"}
    done = run(script("gate"), theirs, VENV=str(venv), PYTHONPATH=str(ROOT), **given)
    assert done.returncode == 0, done.stdout + done.stderr
    for pattern in {*paths("cache/save"), *paths("upload-artifact")} - {
        ".refusal-checks/runs/*/*.log"  # no engine, no log
    }:
        assert list(theirs.glob(pattern)), pattern
    assert paths("cache/save") == paths("cache/restore")


def test_the_script_of_gitlab_and_jenkins_gates_there(theirs: Path) -> None:
    venv = command(theirs.parent, REAL)
    (theirs / "thresholds").mkdir()
    (theirs / "our.toml").rename(theirs / "thresholds" / "default.toml")
    (theirs / "answers.jsonl").rename(theirs / "thresholds" / "answers.jsonl")
    given = {"CANDIDATE": "replay:thresholds/answers.jsonl", "JUDGE": "keyword", "VENV": str(venv)}
    text = (TEMPLATES / "gate.sh").read_text()
    store = str(theirs.parent / "store.sqlite")
    done = run(text, theirs, PYTHONPATH=str(ROOT), STORE=store, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = YAML(typ="safe").load(TEMPLATES / "gitlab.yml")["refusal-gate"]["artifacts"]
    for pattern in (*kept["paths"][:2], kept["reports"]["junit"]):
        assert list(theirs.glob(pattern)), pattern
    done = run(text, theirs, VENV=str(venv))
    assert done.returncode != 0
    assert "CANDIDATE: name the model under test" in done.stderr


ALL = {"THRESHOLDS": "my gates.toml", "BASELINE": "base; touch hacked", "ARGS": "-k xstest"}
SAID = ["--thresholds", "my gates.toml", "--baseline", "base; touch hacked", "-k", "xstest"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["org/model", "--judge", "a judge"]),
        (ALL, ["org/model", "--judge", "a judge", *SAID]),
        ({"CANDIDATE": "$(touch hacked)"}, ["$(touch hacked)", "--judge"]),
    ],
)
def test_inputs_reach_the_gate_as_they_are(
    tmp_path: Path, given: dict[str, str], expected: list[str]
) -> None:
    venv = command(tmp_path, "print(*sys.argv[1:], sep='\\n', file=open(sys.argv[1], 'w'))")
    usual = {"CANDIDATE": "org/model", "JUDGE": "a judge", "VENV": str(venv)}
    done = run(script("gate"), tmp_path, **{**usual, **given})
    assert done.returncode == 0, done.stderr
    reports = ("--junitxml", "report.xml", "--refusal-html", "report.html", "--junit-prompts")
    words = (tmp_path / "gate").read_text().splitlines()
    passed = [word for word in words[1:] if word not in {*reports, "prompts.xml"}]
    assert passed[: len(expected)] == expected
    assert not (tmp_path / "hacked").exists()
    assert (tmp_path / "doctor").read_text().startswith("doctor\n--candidate\n")


@pytest.mark.parametrize(
    ("engine", "extra"), [("vllm", "[vllm]"), ("none", ""), ("$(touch hacked)", None)]
)
def test_the_environment_lies_outside_the_workspace_and_is_made_once(
    tmp_path: Path, engine: str, extra: str | None
) -> None:
    workspace, home, tools = (tmp_path / name for name in ("workspace", "home", "tools"))
    for folder in (workspace, home, tools):
        folder.mkdir()
    stub = '#!/bin/sh\necho "$@" >> "$HOME/log"\nmkdir -p "$3/bin"; cp "$0" "$3/bin/pip"\n'
    (tools / "python").write_text(stub)
    (tools / "git").write_text("#!/bin/sh\necho abc123\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    file = tmp_path / "env"
    variables = {"HOME": str(home), "PATH": f"{tools}:{os.environ['PATH']}", "ENGINE": engine}
    for _ in range(2):
        done = run(script("install"), workspace, CHECKS=".", GITHUB_ENV=str(file), **variables)
        assert done.returncode == (4 if extra is None else 0), done.stderr
    assert not (workspace / "hacked").exists()
    if extra is not None:
        venv = home / ".cache" / "refusal-checks" / f"{engine}-abc123"
        assert (home / "log").read_text().splitlines() == [f"-m venv {venv}", f"install .{extra}"]
        assert file.read_text() == f"VENV={venv}\n" * 2


def test_the_documented_call_gives_known_inputs_and_secrets() -> None:
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    examples = [
        YAML(typ="safe").load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.S)
    ]
    (call,) = (found["jobs"]["gate"] for found in examples if "jobs" in found)
    gate = GATE["on"]["workflow_call"]
    assert call["with"].keys() <= gate["inputs"].keys()
    assert call["secrets"].keys() <= gate["secrets"].keys()
    assert gate["inputs"] == GATE["on"]["workflow_dispatch"]["inputs"]
