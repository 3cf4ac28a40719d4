"""Engines in a pytest session: who starts them, how often, where, and that none outlives it."""

import os
import re
import shutil
import signal

import pytest

from tests.plugin.conftest import PATIENT, Project, in_both_modes, refused
from tests.plugin.engine_project import (
    DEMO,
    TWO,
    orphans,
    requests,
    starts,
)
from tests.processes import wait_until
from tests.toy_model import MODEL_DIR

PERSONAS = ("--set", "judge.template_variables=[{mood=1},{mood=2}]")


@pytest.mark.parametrize(
    "mode", [(), pytest.param(("-n2",), marks=pytest.mark.nightly)]
)
def test_judges_of_one_model_share_the_candidate_s_engine(
    engines: Project, mode: tuple[str, ...]
) -> None:
    panel = (*DEMO, "-v", "--judge", "demo:judge", *PERSONAS)
    result = engines.run(*panel, *mode)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "candidate demo:aligned, judges demo:judge (1), demo:judge (2)",
            "judges disagree on 0 of 160 answers",
        ]
    )
    assert "note: demo models are toys" in result.stdout.str()
    assert len(starts(engines)) == 1
    assert orphans(engines.path) == []
    engines.run(*panel).assert_outcomes(passed=3)
    assert len(starts(engines)) == 1, "everything is stored"


def test_a_further_judge_starts_its_own_engine_alone(engines: Project) -> None:
    one = (*DEMO, "--candidate-args", "--seed 1")
    engines.run(*one).assert_outcomes(passed=3)
    assert len(starts(engines)) == 2
    panel = ("--judge", "demo:judge", "--judge-args", "", "--judge-args", "--seed 2")
    engines.run(*one, *panel, "--set", "judge.template_variables=[{mood=2},{mood=2}]")
    assert len(starts(engines)) == 4
    engines.run(*one, *panel, "--set", "judge.template_variables={mood=2}")
    assert len(starts(engines)) == 4


def test_no_engine_where_no_selected_test_needs_one(engines: Project) -> None:
    for args in (("--collect-only",), ("-k", "nothing_of_that_name")):
        engines.run(*DEMO, *args)
    assert starts(engines) == []


@in_both_modes
def test_a_start_that_fails_ends_the_session_once(
    engines: Project, mode: tuple[str, ...]
) -> None:
    engines.setenv("VLLM_FAKE", "fail")
    result = engines.run(*DEMO, *mode, "--html", "report.html")
    assert result.ret == 16
    assert "Not decided" in (engines.path / "report.html").read_text()
    said = result.stdout.str()
    assert said.count("the model has two left feet") == 1
    assert "\n! Stopped: vLLM ended before it was ready: " in said
    for words in ("command: ", "exit status: 3", "engine-0.log"):
        assert words in said
    assert len(starts(engines)) == 1


def test_the_candidate_answers_while_the_judge_s_engine_loads(engines: Project) -> None:
    engines.setenv("VLLM_FAKE", "late")  # it waits for the answers
    engines.run(*TWO).assert_outcomes(passed=3)
    asked = (engines.path / "requests.txt").read_text().splitlines()
    assert asked == ["candidate"] * 160 + ["judge"] * 160
    assert len(starts(engines)) == 2
    assert "--max-model-len 512" in "".join(starts(engines))


def test_a_judge_s_engine_that_does_not_start_ends_the_session_and_answers_are_kept(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "late-fail")
    result = engines.run(*TWO)
    assert result.ret == 16
    assert result.stdout.str().count("the judge has gone home") == 1
    assert wait_until(lambda: orphans(engines.path) == [])
    engines.patch.delenv("VLLM_FAKE")
    engines.run(*TWO).assert_outcomes(passed=3)
    assert requests(engines)["candidate"] == 160, "they were stored"


def test_an_engine_that_dies_is_started_again_once(engines: Project) -> None:
    engines.setenv("VLLM_FAKE", "die-once")
    result = engines.run(*DEMO)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["note: vLLM ended during the run and was started again, once*"]
    )
    assert len(starts(engines)) == 2
    assert requests(engines)["candidate"] < 2 * 160, (
        "what was answered is not asked for again"
    )
    engines.run(*DEMO).assert_outcomes(passed=3)
    assert len(starts(engines)) == 2, (
        "nothing is missing, so nothing was counted that is no answer"
    )


def test_answers_that_an_engine_breaks_off_as_it_ends_are_asked_for_again(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "abort-once")
    engines.run(*DEMO).assert_outcomes(passed=3)
    assert len(starts(engines)) == 2
    for found in engines.summary()["benchmarks"].values():
        assert (found["answers"], found["invalid"]) == (80, {})


def test_of_two_engines_only_the_one_that_died_is_started_again(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "die-once")
    engines.run(*TWO).assert_outcomes(passed=3)
    assert len(starts(engines)) == 3


def test_an_engine_that_dies_again_makes_errors_and_tells_why_once(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "die")
    result = engines.run(*DEMO)
    result.assert_outcomes(errors=3)
    assert result.ret == 1
    assert result.stdout.str().count("exit status: ") == 1
    result.stdout.fnmatch_lines(["*vLLM ended during the run for the second time*"])
    assert len(starts(engines)) == 2
    assert wait_until(lambda: orphans(engines.path) == [])


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
    engines: Project, number: signal.Signals, xdist: tuple[str, ...]
) -> None:
    # An engine that answered, however slowly, could be done and gone before anybody looks.
    engines.setenv("VLLM_FAKE", "hang")
    engines.conftest(PATIENT)
    with engines.start("pytest", *DEMO, *xdist) as session:
        assert wait_until(lambda: "vLLM is ready" in session.said, 60), session.said
        assert len(orphans(engines.path)) >= 2
        os.kill(session.pid, number)
        status = session.wait()
    assert wait_until(lambda: orphans(engines.path) == [])
    assert status == (-number if number == signal.SIGKILL else 2), session.said


@pytest.mark.parametrize(
    "xdist",
    [(), pytest.param(("-n2",), marks=pytest.mark.nightly)],
    ids=["plain", "n2"],
)
def test_an_interrupt_while_a_later_candidate_loads_ends_its_engine(
    engines: Project, xdist: tuple[str, ...]
) -> None:
    engines.setenv("VLLM_FAKE", "load")
    engines.conftest(PATIENT)
    shutil.copytree(
        MODEL_DIR, engines.path / "other"
    )  # else the first one's engine would go on
    both = (
        "--candidate",
        "demo:aligned",
        "--candidate",
        "./other",
        "--judge",
        "keyword",
    )
    settings = ("--samples", "1", "--set", "limits.in_flight=2", "-v")
    first = ".refusal-checks/runs/*-1/summary.json"
    with engines.start("pytest", *both, *settings, *xdist) as session:
        assert wait_until(lambda: len(starts(engines)) == 2, 60), session.said
        assert wait_until(lambda: any(engines.path.glob(first)), 60)
        os.kill(session.pid, signal.SIGINT)
        assert session.wait() == 2, session.said
    said = session.said
    assert "Exception in thread" not in said
    stopped = "the evaluation was stopped before it was complete"
    assert f"other: {stopped}" in said
    assert f"demo:aligned: {stopped}" not in said
    assert said.count("ready after") == said.count("vLLM is ready after") + 1
    assert wait_until(lambda: orphans(engines.path) == [])


TURNS = (*TWO, "--set", "engine.placement=turns")


def placement(project: Project) -> str:
    """The kind of placement that the last run's manifest tells of."""
    return str(project.summary()["manifest"]["placement"]["kind"])


def test_in_turns_the_judge_starts_when_the_candidate_has_stopped(
    engines: Project,
) -> None:
    result = engines.run(*TURNS)
    result.assert_outcomes(passed=3)
    first, second = starts(engines)
    assert first.startswith("0 running")
    assert second.startswith("0 running")
    assert "--max-model-len 512" in second
    assert requests(engines)["candidate"] == 160
    assert placement(engines) == "turns"
    result.stdout.fnmatch_lines(["placement turns: *toy_model/weights*"])
    engines.run(*TURNS).assert_outcomes(passed=3)
    assert len(starts(engines)) == 2
    assert placement(engines) == "none"


def test_together_both_run_at_once(engines: Project) -> None:
    engines.run(*TWO, "--set", "engine.placement=together").assert_outcomes(passed=3)
    assert len(starts(engines)) == 2
    assert placement(engines) == "together"


@pytest.mark.parametrize(
    "turn", [pytest.param("candidate", marks=pytest.mark.nightly), "judge"]
)
def test_a_run_that_was_killed_in_either_turn_repeats_nothing(
    engines: Project, turn: str
) -> None:
    engines.setenv("VLLM_FAKE", "slow")
    with engines.start("pytest", *TURNS, "--set", "limits.in_flight=20") as session:
        assert wait_until(lambda: requests(engines)[turn] >= 40, 60)
        session.kill()
    assert wait_until(lambda: orphans(engines.path) == [])
    before = requests(engines)
    result = engines.run(*TURNS)
    result.assert_outcomes(passed=3)
    found = re.search(r"(\d+) answers to generate, (\d+) verdicts", result.stdout.str())
    assert found
    missing = dict(zip(("candidate", "judge"), map(int, found.groups()), strict=True))
    assert 0 < missing[turn] <= 160 - 40 + 20
    assert dict(requests(engines) - before) == {
        name: n for name, n in missing.items() if n
    }
    assert len(starts(engines)) == {"candidate": 1 + 2, "judge": 2 + 1}[turn]


def test_a_model_without_a_chat_template_is_refused_before_an_engine_starts(
    engines: Project,
) -> None:
    model = engines.path / "model"
    shutil.copytree(MODEL_DIR, model)
    (model / "chat_template.jinja").unlink()
    run = ("--candidate", model, "--judge", "keyword", "--samples", "1")
    refused(
        engines.run(*run),
        f'--candidate {model}: give --candidate-args="--chat-template FILE": its',
    )
    assert starts(engines) == []
    template = f"--candidate-args=--chat-template {MODEL_DIR / 'chat_template.jinja'}"
    engines.run(*run, template).assert_outcomes(passed=3)
