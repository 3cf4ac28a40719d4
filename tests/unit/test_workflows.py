"""The CI workflows: valid, pinned, with the least permissions, and no input is a shell's text."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
LEAST = {"contents": "read"}

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    """A workflow."""
    found: dict[str, Any] = YAML(typ="safe").load(path)
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    """All steps of a workflow."""
    for job in load(path)["jobs"].values():
        yield from job["steps"]


def test_the_workflows_are_there() -> None:
    assert [path.stem for path in FILES] == ["gate", "tests"]


def test_the_workflows_are_what_github_takes() -> None:
    checker = [sys.executable, "-m", "check_jsonschema"]
    schema = ["--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run(
        [*checker, *schema, *map(str, FILES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@each_file
def test_actions_are_pinned_by_commit_with_the_version_beside(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@each_file
def test_no_expression_is_part_of_a_script(path: Path) -> None:
    scripts = [step["run"] for step in steps(path) if "run" in step]
    assert scripts
    for script in scripts:
        assert "${{" not in script
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@each_file
def test_permissions_are_the_least_and_no_step_keeps_the_token(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == LEAST
    assert all("permissions" not in job for job in workflow["jobs"].values())
    checkouts = [step for step in steps(path) if "actions/checkout@" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@each_file
def test_jobs_end_and_do_not_pile_up(path: Path) -> None:
    workflow = load(path)
    assert workflow["concurrency"]["group"]
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())


def test_jobs_of_a_matrix_neither_cancel_each_other_nor_share_a_cache() -> None:
    gate = load(FOLDER / "gate.yml")
    own = ("${{ inputs.candidate }}", "${{ inputs.artifact }}")
    assert all(part in gate["concurrency"]["group"] for part in own)
    assert gate["concurrency"]["cancel-in-progress"] is False
    caches = [step["with"] for step in steps(FOLDER / "gate.yml") if "cache/" in str(step)]
    restored, saved = caches
    assert restored["key"] == saved["key"]
    assert all(part in saved["key"] for part in own)
    first, *others = restored["restore-keys"].splitlines()
    assert saved["key"].startswith(first)
    assert all(first.startswith(other) for other in others)


def test_the_gate_can_be_called_with_what_it_takes_by_hand() -> None:
    triggers = load(FOLDER / "gate.yml")["on"]
    inputs = triggers["workflow_call"]["inputs"]
    assert inputs == triggers["workflow_dispatch"]["inputs"]
    assert {"candidate", "judge", "thresholds", "baseline", "args"} <= inputs.keys()
    secrets = triggers["workflow_call"]["secrets"]
    assert not any(secret["required"] for secret in secrets.values())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["--candidate", "org/model", "--judge", "a judge"]),
        (
            {"THRESHOLDS": "my gates.toml", "BASELINE": "base; touch hacked", "ARGS": "-k xstest"},
            [
                *("--candidate", "org/model", "--judge", "a judge", "--thresholds"),
                *("my gates.toml", "--baseline", "base; touch hacked", "-k", "xstest"),
            ],
        ),
        ({"CANDIDATE": "$(touch hacked)"}, ["--candidate", "$(touch hacked)", "--judge"]),
    ],
)
def test_inputs_reach_pytest_as_they_are(
    tmp_path: Path, given: dict[str, str], expected: list[str]
) -> None:
    (script,) = (step["run"] for step in steps(FOLDER / "gate.yml") if step.get("name") == "gate")
    commands = tmp_path / "checks" / ".venv" / "bin"
    commands.mkdir(parents=True)
    for name in ("pytest", "refusal-checks"):
        (commands / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/{name}.txt\n')
        (commands / name).chmod(0o755)
    names = ("CANDIDATE", "JUDGE", "THRESHOLDS", "BASELINE", "ARGS", "HF_FOLDER")
    settings = dict.fromkeys(names, "") | {"CANDIDATE": "org/model", "JUDGE": "a judge"}
    environment = {**os.environ, **settings, "CHECKS": "checks", **given}
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True)
    words = (tmp_path / "pytest.txt").read_text().splitlines()
    assert words[0] == "checks/tests/gates"
    reports = {"--junitxml", "report.xml", "--html", "report.html", "--junit-prompts"}
    assert reports <= set(words)
    passed = [word for word in words[1:] if word not in {*reports, "prompts.xml"}]
    assert passed[: len(expected)] == expected
    assert not (tmp_path / "hacked").exists()
    assert (tmp_path / "refusal-checks.txt").read_text().startswith("doctor\n--candidate\n")


def test_the_page_s_call_gives_inputs_and_secrets_that_there_are() -> None:
    page = (FOLDER.parents[1] / "docs" / "ci.md").read_text()
    examples = [
        YAML(typ="safe").load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.S)
    ]
    (call,) = (found["jobs"]["gate"] for found in examples if "jobs" in found)
    gate = load(FOLDER / "gate.yml")["on"]["workflow_call"]
    assert call["with"].keys() <= gate["inputs"].keys()
    assert call["secrets"].keys() <= gate["secrets"].keys()
