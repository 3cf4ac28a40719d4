"""Engines in a pytest session: who starts them, how often, and that none outlives it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.plugin.conftest import ROOT
from tests.plugin.fake_vllm import TAG
from tests.plugin.processes import wait_until

DEMO = ("--candidate", "demo:aligned", "--judge", "demo:judge", "--samples", "1")


def orphans(folder: Path) -> list[psutil.Process]:
    """The live processes that a fake vLLM of this folder started, and itself."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        ours = f"{TAG}-{folder}" in words or ("--port" in words and process.cwd() == str(folder))
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


@pytest.fixture
def project(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    """The project with a fake ``vllm`` package in the folder that pytest is run from."""
    folder = project.path / "vllm" / "entrypoints" / "openai"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent, folder.parent.parent):
        (package / "__init__.py").touch()
    (folder / "api_server.py").write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.plugin.fake_vllm import main; main()\n"
    )
    yield project
    for process in orphans(project.path):
        process.kill()


def starts(project: pytest.Pytester) -> int:
    """How many engines were started."""
    path = project.path / "starts.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_candidate_and_judge_of_one_model_share_an_engine(
    project: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = project.runpytest_subprocess(*DEMO, *mode)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["note: demo models are toys*"])
    assert starts(project) == 1
    assert orphans(project.path) == []


def test_other_arguments_make_another_engine(project: pytest.Pytester) -> None:
    args = ("--judge-args", "--max-model-len 512")
    project.runpytest_subprocess(*DEMO, *args).assert_outcomes(passed=3)
    assert starts(project) == 2
    assert "--max-model-len 512" in (project.path / "starts.txt").read_text()


PERSONAS = ("--judge-template-kwargs", '{"mood": 1}', "--judge-template-kwargs", '{"mood": 2}')


def test_judges_of_one_model_share_the_candidate_s_engine(
    project: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    panel = ("--judge", "demo:judge", *PERSONAS)
    result = project.runpytest_subprocess(*DEMO, *panel, *mode)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "candidate demo:aligned, judges demo:judge (1), demo:judge (2)",
            "judges disagree on 0 of 160 answers",
        ]
    )
    assert starts(project) == 1


def test_a_further_judge_starts_its_own_engine_alone(project: pytest.Pytester) -> None:
    project.runpytest_subprocess(*DEMO, "--candidate-args", "--seed 1").assert_outcomes(passed=3)
    assert starts(project) == 2
    panel = ("--judge", "demo:judge", "--judge-args", "", "--judge-args", "--seed 2")
    project.runpytest_subprocess(
        *DEMO, "--candidate-args", "--seed 1", *panel, *PERSONAS[2:], *PERSONAS[2:]
    )
    assert starts(project) == 4
    project.runpytest_subprocess(*DEMO, "--candidate-args", "--seed 1", *panel, *PERSONAS[2:])
    assert starts(project) == 4


@pytest.mark.parametrize("args", [("--collect-only",), ("-k", "nothing_of_that_name")])
def test_no_engine_where_no_selected_test_needs_one(
    project: pytest.Pytester, args: tuple[str, ...]
) -> None:
    project.runpytest_subprocess(*DEMO, *args)
    assert starts(project) == 0


def test_no_engine_where_everything_is_stored(project: pytest.Pytester) -> None:
    for _ in range(2):
        project.runpytest_subprocess(*DEMO).assert_outcomes(passed=3)
    assert starts(project) == 1


def test_a_start_that_fails_ends_the_session_once(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "fail")
    result = project.runpytest_subprocess(*DEMO, *mode)
    assert result.ret == 16
    said = result.stdout.str()
    assert said.count("the model has two left feet") == 1
    for words in ("vLLM ended before it was ready", "command: ", "exit status: 3", "engine-0.log"):
        assert words in said
    assert starts(project) == 1


def test_an_engine_that_dies_makes_errors_and_tells_why_once(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "die")
    result = project.runpytest_subprocess(*DEMO, *mode)
    result.assert_outcomes(errors=3)
    assert result.ret == 1
    assert result.stdout.str().count("exit status: ") == 1
    assert wait_until(lambda: orphans(project.path) == [])


@pytest.mark.parametrize("xdist", [(), ("-n2",)], ids=["plain", "n2"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_process_outlives_the_session(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    xdist: tuple[str, ...],
    number: signal.Signals,
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "slow")
    command = [sys.executable, "-m", "pytest", *DEMO, *xdist]
    with subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as session:
        assert session.stdout is not None
        for line in session.stdout:
            if b"vLLM is ready" in line:
                break
        assert len(orphans(project.path)) >= 2
        session.send_signal(number)
        rest = session.stdout.read()
    assert wait_until(lambda: orphans(project.path) == [])
    assert session.returncode == (2 if number == signal.SIGINT else -number), rest
