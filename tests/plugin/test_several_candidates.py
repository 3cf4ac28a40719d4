"""Several candidates in one session: each in turn, all in one table and one JUnit file."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET

import pytest

from tests.fake_server import FakeServer
from tests.plugin import engine_project
from tests.plugin.conftest import careless, well_behaved
from tests.toy_model import MODEL_DIR


@pytest.fixture
def both(project: pytest.Pytester, server: FakeServer) -> tuple[str, ...]:
    """The options of a run of two candidates, the first one well-behaved."""
    return ("--judge", f"{server.url}#fake", "--samples", "1", "--candidate", f"{server.url}#fake")


def test_each_candidate_has_its_gates(project: pytest.Pytester, both: tuple[str, ...]) -> None:
    with FakeServer(careless, models=("bad",)) as bad:
        args = ("--candidate", f"{bad.url}#bad", "--junitxml", "report.xml", "-n2")
        result = project.runpytest_subprocess(*both, *args)
        result.assert_outcomes(passed=4, failed=2)
        names = {case.get("name", "") for case in ET.parse("report.xml").iter("testcase")}
        assert "test_gate[smoke_unsafe-rejection_rate-bad]" in names
        assert len(names) == 6
        folders = sorted((project.path / ".refusal-checks" / "runs").iterdir())
        candidates = [
            json.loads((folder / "summary.json").read_text())["manifest"]["candidate"]
            for folder in folders
        ]
        assert candidates == [both[-1], f"{bad.url}#bad"]
        result = project.runpytest_subprocess(*both, *args, "-k", "bad and smoke_safe")
        result.assert_outcomes(passed=1)


def test_each_candidate_s_server_gets_its_own_key(
    project: pytest.Pytester, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSAL_CHECKS_CANDIDATE_API_KEY", "one")
    monkeypatch.setenv("REFUSAL_CHECKS_CANDIDATE_2_API_KEY", "two")
    with FakeServer(well_behaved, api_key="two") as other:
        candidates = ("--candidate", f"{server.url}#fake", "--candidate", f"{other.url}#fake")
        args = (*candidates, "--judge", "keyword", "--samples", "1", "-k", "smoke_safe")
        project.runpytest_subprocess(*args).assert_outcomes(passed=2)
    assert set(server.authorizations) == {"Bearer one"}
    assert set(other.authorizations) == {"Bearer two"}


def test_one_whose_engine_does_not_start_leaves_the_others_their_turns(
    project: pytest.Pytester,
    both: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine_project.install(project)
    monkeypatch.setenv("VLLM_FAKE", "fail")
    args = ("--candidate", "demo:aligned", *both, "--junitxml", "report.xml")
    result = project.runpytest_subprocess(*args, "-k", "smoke_safe")
    result.assert_outcomes(errors=1, passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the model has two left feet*"])
    failed = [
        case for case in ET.parse("report.xml").iter("testcase") if case.find("error") is not None
    ]
    assert [case.get("name") for case in failed] == [
        "test_gate[smoke_safe-rejection_rate-demo:aligned]"
    ]


def test_candidates_of_one_engine_start_it_once(project: pytest.Pytester) -> None:
    engine_project.install(project)
    args = ("--candidate", "demo:aligned", "--candidate", "demo:regressed", "--judge", "demo:judge")
    result = project.runpytest_subprocess(*args, "--samples", "1")
    result.assert_outcomes(passed=6)
    assert len(engine_project.starts(project)) == 1
    assert engine_project.orphans(project.path) == []


def test_the_judge_s_engine_starts_once_for_candidates_of_one_size(
    project: pytest.Pytester,
) -> None:
    engine_project.install(project)
    shutil.copytree(MODEL_DIR, project.path / "other")
    result = project.runpytest_subprocess(*engine_project.TWO, "--candidate", "./other")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["placement * as much", "vLLM goes on for *"])
    assert len(engine_project.starts(project)) == 3, "the judge's and one for each candidate"
    assert engine_project.orphans(project.path) == []


@engine_project.LOADS_EARLY
def test_the_next_candidate_s_engine_loads_while_one_works_that_leaves_a_core(
    project: pytest.Pytester,
) -> None:
    engine_project.install(project)
    shutil.copytree(MODEL_DIR, project.path / "other")
    both = ("--candidate", "demo:aligned", "--candidate", "./other", "--judge", "keyword")
    result = project.runpytest_subprocess(*both, "--samples", "1")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["*, beside the run before it", "placement * as much"])
    assert len(engine_project.starts(project)) == 2
    assert engine_project.orphans(project.path) == []


def test_the_same_candidate_twice_is_an_error(
    project: pytest.Pytester, both: tuple[str, ...]
) -> None:
    result = project.runpytest_subprocess(*both, "--candidate", both[-1])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*named twice with the same settings*"])


def test_a_candidate_whose_turn_never_came_has_a_run_that_says_so(
    project: pytest.Pytester,
) -> None:
    with FakeServer(careless, models=("one", "two"), delay=0.2) as slow:
        named = [word for name in ("one", "two") for word in ("--candidate", f"{slow.url}#{name}")]
        judge = ("--judge", "keyword", "--samples", "1", "--limit", "8", "--in-flight", "2")
        result = project.runpytest_subprocess(*named, *judge, "-x")
        assert {body["model"] for body in slow.requests} == {"one"}
    assert "stopping after 1 failures" in result.stdout.str()
    folders = sorted((project.path / ".refusal-checks" / "runs").iterdir())
    failures = [json.loads((folder / "summary.json").read_text())["failure"] for folder in folders]
    assert failures == ["the evaluation was stopped before it was complete"] * 2
