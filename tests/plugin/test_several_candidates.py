"""Several candidates in one session: each in turn, all in one table and one JUnit file."""

import json
import shutil
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.fake_server import FakeServer
from tests.plugin import engine_project
from tests.plugin.conftest import KEYWORD, Project, careless, refused, well_behaved
from tests.toy_model import MODEL_DIR

OTHER = ("--candidate", "./other")
"""A copy of the toy model, which needs an engine of its own."""


INTERRUPTED = """
import os, signal
from refusal_checks.evaluation.publisher import Publisher

def interrupted(self, *args):
    os.kill(os.getpid(), signal.SIGINT)

Publisher.publish = interrupted
"""
"""A run that is interrupted as it is about to publish its first verdict."""


def first(project: Project) -> tuple[str, ...]:
    """The options of a run of a candidate that is well-behaved."""
    return ("--judge", project.model, "--samples", "1", "--candidate", project.model)


def summaries(project: Project) -> list[Any]:
    return [
        json.loads((folder / "summary.json").read_text()) for folder in project.runs
    ]


def test_each_candidate_has_its_gates(project: Project) -> None:
    with FakeServer(careless, models=("bad",)) as bad:
        args = (
            *first(project),
            "--candidate",
            f"{bad.url}#bad",
            "--junitxml",
            "report.xml",
        )
        project.run(*args).assert_outcomes(passed=4, failed=2)
        names = {
            case.get("name", "") for case in ET.parse("report.xml").iter("testcase")
        }
        assert "test_gate[smoke_unsafe-rejection_rate-bad]" in names
        assert len(names) == 6
        manifests = [each["manifest"] for each in summaries(project)]
        assert [each["candidate"] for each in manifests] == [
            project.model,
            f"{bad.url}#bad",
        ]
        project.run(*args, "-k", "bad and smoke_safe").assert_outcomes(passed=1)
    twice = project.run(*first(project), "--candidate", project.model)
    refused(twice, "named twice with the same settings")


def test_each_candidate_s_server_gets_its_own_key(project: Project) -> None:
    project.setenv("REFUSAL_CHECKS_CANDIDATE_API_KEY", "one")
    project.setenv("REFUSAL_CHECKS_CANDIDATE_2_API_KEY", "two")
    with FakeServer(well_behaved, api_key="two") as other:
        candidates = ("--candidate", project.model, "--candidate", f"{other.url}#fake")
        args = (*candidates, *KEYWORD, "--samples", "1", "-k", "smoke_safe")
        project.run(*args).assert_outcomes(passed=2)
    assert set(project.server.authorizations) == {"Bearer one"}
    assert set(other.authorizations) == {"Bearer two"}


def test_one_whose_engine_does_not_start_leaves_the_others_their_turns(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "fail")
    args = ("--candidate", "demo:aligned", *first(engines), "--junitxml", "report.xml")
    result = engines.run(*args, "-k", "smoke_safe")
    result.assert_outcomes(errors=1, passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the model has two left feet*"])
    cases = ET.parse("report.xml").iter("testcase")
    failed = [case.get("name") for case in cases if case.find("error") is not None]
    assert failed == ["test_gate[smoke_safe-rejection_rate-demo:aligned]"]


@pytest.mark.parametrize(
    ("models", "said", "count"),
    [
        ((*engine_project.DEMO, "--candidate", "demo:regressed"), [], 1),
        # The judge's engine, and one for each candidate.
        (
            (*engine_project.TWO, *OTHER),
            ["placement * as much", "vLLM goes on for *"],
            3,
        ),
    ],
    ids=["of one engine", "of one size"],
)
def test_no_engine_starts_twice_for_several_candidates(
    engines: Project, models: tuple[str, ...], said: list[str], count: int
) -> None:
    shutil.copytree(MODEL_DIR, engines.path / "other")
    result = engines.run(*models)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(said)
    assert len(engine_project.starts(engines)) == count
    assert engine_project.orphans(engines.path) == []


def test_the_first_failure_ends_the_tests_and_no_evaluation(project: Project) -> None:
    with FakeServer(careless, models=("one", "two")) as server:
        named = [
            word
            for one in ("one", "two")
            for word in ("--candidate", f"{server.url}#{one}")
        ]
        result = project.run(*named, *KEYWORD, "--samples", "1", "--limit", "8", "-x")
        assert {body["model"] for body in server.requests} == {"one", "two"}
    assert "stopping after 1 failures" in result.stdout.str()
    assert [each["failure"] for each in summaries(project)] == ["", ""]


def test_a_candidate_whose_turn_never_came_has_a_run_that_says_so(
    project: Project,
) -> None:
    project.conftest(INTERRUPTED)
    models = [
        word
        for name in ("fake", "two")
        for word in ("--candidate", f"{project.server.url}#{name}")
    ]
    project.server._models = ("fake", "two")
    result = project.run(*models, *KEYWORD, "--samples", "1", "--limit", "8")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert {body["model"] for body in project.server.requests} == {"fake"}
    failures = [each["failure"] for each in summaries(project)]
    assert failures == ["the evaluation was stopped before it was complete"] * 2
