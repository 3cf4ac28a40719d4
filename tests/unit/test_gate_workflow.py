"""What no linter sees of the gate's workflow: what reaches pytest, and what docs/ci.md promises."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
GATE: dict[str, Any] = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "gate.yml")


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
    steps = GATE["jobs"]["gate"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("name") == "gate")
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


def test_the_documented_call_gives_known_inputs_and_secrets() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    examples = [
        YAML(typ="safe").load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.S)
    ]
    (call,) = (found["jobs"]["gate"] for found in examples if "jobs" in found)
    gate = GATE["on"]["workflow_call"]
    assert call["with"].keys() <= gate["inputs"].keys()
    assert call["secrets"].keys() <= gate["secrets"].keys()
    assert gate["inputs"] == GATE["on"]["workflow_dispatch"]["inputs"]
