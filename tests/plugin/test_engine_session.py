"""Engines in a pytest session: who starts them, how often, and that none outlives it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.plugin import engine_project
from tests.plugin.engine_project import DEMO, LOADS_EARLY, TWO, orphans, requests
from tests.processes import wait_until
from tests.toy_model import MODEL_DIR


@pytest.fixture
def project(project: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """The project with a fake ``vllm`` package in the folder that pytest is run from."""
    engine_project.install(project)
    yield project
    for process in orphans(project.path):
        process.kill()


def starts(project: pytest.Pytester) -> int:
    """How many engines were started."""
    return len(engine_project.starts(project))


def test_candidate_and_judge_of_one_model_share_an_engine(
    project: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = project.runpytest_subprocess(*DEMO, *mode)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["note: demo models are toys*"])
    assert starts(project) == 1
    assert orphans(project.path) == []


def test_other_arguments_make_another_engine(project: pytest.Pytester) -> None:
    project.runpytest_subprocess(*TWO).assert_outcomes(passed=3)
    assert starts(project) == 2
    assert "--max-model-len 512" in "".join(engine_project.starts(project))


PERSONAS = ("--judge-template-kwargs", '{"mood": 1}', "--judge-template-kwargs", '{"mood": 2}')


def test_judges_of_one_model_share_the_candidate_s_engine(project: pytest.Pytester) -> None:
    panel = ("--judge", "demo:judge", *PERSONAS)
    result = project.runpytest_subprocess(*DEMO, "-v", *panel)
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
    monkeypatch.setenv("VLLM_FAKE", "fail")
    result = project.runpytest_subprocess(*DEMO, *mode)
    assert result.ret == 16
    said = result.stdout.str()
    assert said.count("the model has two left feet") == 1
    assert "\n! Stopped: vLLM ended before it was ready: " in said
    for words in ("command: ", "exit status: 3", "engine-0.log"):
        assert words in said
    assert starts(project) == 1


def test_the_candidate_answers_while_the_judge_s_engine_loads(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_FAKE", "late")  # it waits for the answers
    project.runpytest_subprocess(*TWO).assert_outcomes(passed=3)
    asked = (project.path / "requests.txt").read_text().splitlines()
    assert asked == ["candidate"] * 160 + ["judge"] * 160


def test_a_judge_s_engine_that_does_not_start_ends_the_session_and_answers_are_kept(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_FAKE", "late-fail")
    result = project.runpytest_subprocess(*TWO)
    assert result.ret == 16
    assert result.stdout.str().count("the judge has gone home") == 1
    assert wait_until(lambda: orphans(project.path) == [])
    monkeypatch.delenv("VLLM_FAKE")
    project.runpytest_subprocess(*TWO).assert_outcomes(passed=3)
    assert requests(project)["candidate"] == 160, "they were stored"


def test_an_engine_that_dies_is_started_again_once(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_FAKE", "die-once")
    result = project.runpytest_subprocess(*DEMO)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["note: vLLM ended during the run and was started again, once*"])
    assert starts(project) == 2
    assert requests(project)["candidate"] < 2 * 160, "what was answered is not asked for again"
    again = project.runpytest_subprocess(*DEMO)
    again.assert_outcomes(passed=3)
    assert starts(project) == 2, "nothing is missing, so nothing was counted that is no answer"


def test_answers_that_an_engine_breaks_off_as_it_ends_are_asked_for_again(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_FAKE", "abort-once")
    project.runpytest_subprocess(*DEMO).assert_outcomes(passed=3)
    assert starts(project) == 2
    (summary,) = project.path.glob(".refusal-checks/runs/*/summary.json")
    for found in json.loads(summary.read_text())["benchmarks"].values():
        assert found["answers"] == 80
        assert found["invalid"] == {}


def test_of_two_engines_only_the_one_that_died_is_started_again(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_FAKE", "die-once")
    project.runpytest_subprocess(*TWO).assert_outcomes(passed=3)
    assert starts(project) == 3


def test_an_engine_that_dies_again_makes_errors_and_tells_why_once(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_FAKE", "die")
    result = project.runpytest_subprocess(*DEMO)
    result.assert_outcomes(errors=3)
    assert result.ret == 1
    assert result.stdout.str().count("exit status: ") == 1
    result.stdout.fnmatch_lines(["*vLLM ended during the run for the second time*"])
    assert starts(project) == 2
    assert wait_until(lambda: orphans(project.path) == [])


@pytest.mark.parametrize(
    ("number", "xdist"),
    [
        (signal.SIGKILL, ()),
        (signal.SIGINT, ()),
        (signal.SIGTERM, ()),
        (signal.SIGINT, ("-n2",)),
        pytest.param(signal.SIGKILL, ("-n2",), marks=pytest.mark.nightly),
        pytest.param(signal.SIGTERM, ("-n2",), marks=pytest.mark.nightly),
    ],
)
def test_no_process_outlives_the_session(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    xdist: tuple[str, ...],
) -> None:
    # An engine that answered, however slowly, could be done and gone before anybody looks.
    monkeypatch.setenv("VLLM_FAKE", "hang")
    command = [sys.executable, "-m", "pytest", *DEMO, *xdist]
    with subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as session:
        assert session.stdout is not None
        assert any(b"vLLM is ready" in line for line in session.stdout)
        assert len(orphans(project.path)) >= 2
        session.send_signal(number)
        rest = session.stdout.read()
    assert wait_until(lambda: orphans(project.path) == [])
    assert session.returncode == (-number if number == signal.SIGKILL else 2), rest


@pytest.mark.parametrize(
    "xdist", [(), pytest.param(("-n2",), marks=pytest.mark.nightly)], ids=["plain", "n2"]
)
@pytest.mark.parametrize(
    ("behaviour", "is_first_done"), [("load", True), pytest.param("slow", False, marks=LOADS_EARLY)]
)
def test_an_interrupt_while_a_later_candidate_loads_ends_its_engine(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    xdist: tuple[str, ...],
    behaviour: str,
    is_first_done: bool,
) -> None:
    monkeypatch.setenv("VLLM_FAKE", behaviour)
    shutil.copytree(MODEL_DIR, project.path / "other")  # else the first one's engine would go on
    both = ("--candidate", "demo:aligned", "--candidate", "./other", "--judge", "keyword")
    settings = ("--samples", "1", "--in-flight", "2", "-v")
    first = ".refusal-checks/runs/*-1/summary.json"
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *both, *settings, *xdist],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as session:
        assert wait_until(lambda: starts(project) == 2, 60)
        assert not is_first_done or wait_until(lambda: any(project.path.glob(first)), 60)
        session.send_signal(signal.SIGINT)
        said = session.communicate()[0]
    assert session.returncode == 2, said
    assert "Exception in thread" not in said
    assert is_first_done or "beside the run before it" in said
    stopped = "the evaluation was stopped before it was complete"
    assert f"other: {stopped}" in said
    assert (f"demo:aligned: {stopped}" in said) is not is_first_done
    assert said.count("ready after") == said.count("vLLM is ready after") + 1
    assert wait_until(lambda: orphans(project.path) == [])
