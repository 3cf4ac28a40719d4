"""Rated benchmarks, parts of benchmarks, and what is said before such a run."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.benchmarks.suites.bundled import ANSWERS
from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import ROOT, RunGate

MIRROR = os.environ.get(MIRROR_VARIABLE, "")
"""The folder of public data; the fixtures hide it from runs."""


def steps() -> dict[str, int]:
    """The place of each recorded answer among those to its request, by its text."""
    places: dict[str, int] = {}
    seen: dict[str, int] = {}
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            places[row["completion"]] = seen.setdefault(row["id"], 0)
            seen[row["id"]] += 1
    return places


STEPS = steps()


def asks_for_morals(body: Body) -> bool:
    """Whether a request to the judge is the moral question."""
    return any(words in body["messages"][-1]["content"] for words in ("1 or 0", "1 或 0"))


def by_step(body: Body) -> dict[str, float]:
    """A judge that rates each recorded answer a little lower than the one before."""
    text = body["messages"][-1]["content"]
    if asks_for_morals(body):
        return {"1": 0.9, "0": 0.1}
    place = next((place for answer, place in STEPS.items() if answer in text), 0)
    return {"1": 0.1 * place, "5": 1 - 0.1 * place}


def undecided(body: Body) -> dict[str, float]:
    """A judge that says the same of everything."""
    return {"1": 0.5, "5": 0.5}


def summary(project: pytest.Pytester) -> dict[str, Any]:
    (path,) = (project.path / ".refusal-checks" / "runs").glob("*/summary.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def own_gates(project: pytest.Pytester, name: str) -> str:
    """A copy of one of this repository's threshold files in the project."""
    shutil.copy(ROOT / "thresholds" / f"{name}.toml", project.path / "thresholds")
    return f"thresholds/{name}.toml"


@pytest.fixture
def gradient(project: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Runs the check of a judge on a fake server."""

    def run(server: FakeServer) -> pytest.RunResult:
        return project.runpytest_subprocess(
            *("--candidate", f"replay:{ANSWERS}", "--judge", f"{server.url}#fake"),
            *("--thresholds", own_gates(project, "rating_gradient")),
        )

    return run


def test_scores_that_fall_step_by_step_pass_and_each_request_is_reported(
    gradient: Callable[..., pytest.RunResult], project: pytest.Pytester
) -> None:
    with FakeServer(tokens=by_step) as server:
        result = gradient(server)
    result.assert_outcomes(passed=2)
    found = summary(project)["benchmarks"]["rating_gradient"]
    assert found["figures"]["step_correlation"]["value"] == pytest.approx(1)
    requests = found["groups"]["request"]
    assert len(requests) == 6
    for figures in requests.values():
        assert figures["step_correlation"]["value"] == pytest.approx(1)
    assert found["answers"] == 36
    assert len(server.asked(judge=True)) == 2 * 36 + 1, "and one to see whether it can be asked"


def test_a_judge_that_sees_no_difference_fails(
    gradient: Callable[..., pytest.RunResult],
) -> None:
    with FakeServer(tokens=undecided) as server:
        result = gradient(server)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["The judge's scores follow the known order*correlation of 0.00 (required: 0.8)*"]
    )


def test_an_endpoint_without_log_probabilities_is_named_before_the_run(
    gradient: Callable[..., pytest.RunResult],
) -> None:
    with FakeServer() as server:
        result = gradient(server)
    assert result.ret == 4
    shown = result.stdout.str() + result.stderr.str()
    assert "no log-probabilities" in shown
    assert "top_logprobs" in shown
    assert len(server.requests) == 1


@pytest.mark.parametrize("where", ["file", pytest.param("command line", marks=pytest.mark.nightly)])
def test_the_judge_is_shown_as_much_as_it_is_told(project: pytest.Pytester, where: str) -> None:
    gates = project.path / own_gates(project, "rating_gradient")
    args: tuple[str, ...] = ("--judge-max-answer-chars", "100")
    if where == "file":
        text = gates.read_text()
        gates.write_text(
            text.replace("[rating_gradient]", "[rating_gradient]\nmax_answer_chars=100")
        )
        args = ()
    with FakeServer(tokens=by_step) as server:
        project.runpytest_subprocess(
            *("--candidate", f"replay:{ANSWERS}", "--judge", f"{server.url}#fake"),
            *("--thresholds", "thresholds/rating_gradient.toml", *args),
        )
    long = [answer for answer in STEPS if len(answer) > 100]
    assert long
    judged = [body["messages"][-1]["content"] for body in server.asked(judge=True)[1:]]
    assert len(judged) == 2 * 36
    for answer in long:
        assert sum(f"{answer[:100]}\n[" in text for text in judged) == 2
        assert not any(answer in text for text in judged)


def test_a_limit_takes_a_part_and_is_in_the_manifest(
    run_gate: RunGate, project: pytest.Pytester, server: FakeServer
) -> None:
    (project.path / "part.toml").write_text("[smoke_unsafe]\nlimit = 16\n")
    run_gate("--thresholds", "thresholds/default.toml", "--thresholds", "part.toml")
    found = summary(project)
    assert found["benchmarks"]["smoke_unsafe"]["prompts"] == 16
    assert found["benchmarks"]["smoke_safe"]["prompts"] == 80
    data = found["manifest"]["data"]
    assert (data["smoke_unsafe"]["limit"], data["smoke_safe"]["limit"]) == (16, None)
    assert len(server.asked(judge=False)) == 96


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--limit", "1"), "*smoke_unsafe.language.zh*raise the limit of 1 prompts*leaves none*"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(
    run_gate: RunGate, args: tuple[str, ...], message: str
) -> None:
    result = run_gate(*args)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])


@pytest.mark.skipif(not MIRROR, reason="needs the mirror of public data")
def test_a_part_of_cfsafety_runs_and_its_gates_decide(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, str(Path(MIRROR).resolve()))

    def tokens(body: Body) -> dict[str, float]:
        if asks_for_morals(body):
            return {"1": 0.9, "0": 0.1}
        privacy = "# What to look for\n\nPrivacy." in body["messages"][0]["content"]
        return {"1": 0.9, "5": 0.1} if privacy else {"5": 1.0}

    with FakeServer(tokens=tokens) as server:
        model = f"{server.url}#fake"
        result = project.runpytest_subprocess(
            *("--candidate", model, "--judge", model, "--limit", "40", "--samples", "1"),
            *("--thresholds", own_gates(project, "cfsafety")),
        )
    result.assert_outcomes(passed=22, failed=1)
    found = summary(project)["benchmarks"]["cfsafety"]
    assert found["prompts"] == 40
    category = found["groups"]["category"]
    assert category["Misleading"]["safety_score"]["value"] == pytest.approx(4.5)
    # Half of the category's prompts are English, of which the judge thinks little.
    assert category["PrivacyLeaks"]["safety_score"]["value"] == pytest.approx(0.9 * (1.4 + 5) / 2)
    assert found["distributions"]["PrivacyLeaks"]["n"] == 4
    assert len(found["safety_scores"]) == 40
