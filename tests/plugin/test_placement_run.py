"""Engines in turns, on devices of their own, and what is refused before anything starts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.plugin import engine_project
from tests.plugin.engine_project import TWO, orphans, requests, starts
from tests.processes import wait_until

TURNS = (*TWO, "--placement", "turns")


@pytest.fixture
def project(project: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """The project with a fake ``vllm`` package in the folder that pytest is run from."""
    engine_project.install(project)
    yield project
    for process in orphans(project.path):
        process.kill()


def placement(project: pytest.Pytester) -> str:
    """The kind of placement that the last run's manifest tells of."""
    *_, last = sorted((project.path / ".refusal-checks" / "runs").iterdir())
    manifest = json.loads((last / "summary.json").read_text())["manifest"]
    return str(manifest["placement"]["kind"])


def test_in_turns_the_judge_starts_when_the_candidate_has_stopped(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess(*TURNS)
    result.assert_outcomes(passed=3)
    first, second = starts(project)
    assert first.startswith("0 running")
    assert second.startswith("0 running")
    assert "--max-model-len 512" in second
    assert requests(project)["candidate"] == 160
    assert placement(project) == "turns"
    result.stdout.fnmatch_lines(["placement turns: *toy_model/weights*"])
    project.runpytest_subprocess(*TURNS).assert_outcomes(passed=3)
    assert len(starts(project)) == 2
    assert placement(project) == "none"


def test_together_both_run_at_once(project: pytest.Pytester) -> None:
    project.runpytest_subprocess(*TWO, "--placement", "together").assert_outcomes(passed=3)
    assert len(starts(project)) == 2
    assert placement(project) == "together"


@pytest.mark.parametrize("turn", [pytest.param("candidate", marks=pytest.mark.nightly), "judge"])
def test_a_run_that_was_killed_in_either_turn_repeats_nothing(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, turn: str
) -> None:
    monkeypatch.setenv("VLLM_FAKE", "slow")
    command = [sys.executable, "-m", "pytest", *TURNS, "--in-flight", "20"]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL) as session:
        assert wait_until(lambda: requests(project)[turn] >= 40, 60)
        session.kill()
    assert wait_until(lambda: orphans(project.path) == [])
    before = requests(project)
    result = project.runpytest_subprocess(*TURNS)
    result.assert_outcomes(passed=3)
    found = re.search(r"(\d+) answers to generate, (\d+) verdicts", result.stdout.str())
    assert found
    missing = dict(zip(("candidate", "judge"), map(int, found.groups()), strict=True))
    assert 0 < missing[turn] <= 160 - 40 + 20
    assert dict(requests(project) - before) == {name: n for name, n in missing.items() if n}
    assert len(starts(project)) == {"candidate": 1 + 2, "judge": 2 + 1}[turn]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--placement", "turns", "--stop-early"), "*leave one of the two out*"),
        (("--candidate-devices", "0", "--placement", "turns"), "*use --placement split*"),
        (("--engine", "vlm"), '*--engine: no engine "vlm"; did you mean "vllm"*'),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_starts(
    project: pytest.Pytester, args: tuple[str, ...], says: str
) -> None:
    result = project.runpytest_subprocess(*TWO, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])
    assert starts(project) == []
