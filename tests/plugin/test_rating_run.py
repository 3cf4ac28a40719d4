"""Rated benchmarks, parts of benchmarks, and what is said before such a run."""

import csv
import shutil
from collections.abc import Callable

import pytest

from refusal_checks.benchmarks.suites.bundled import ANSWERS
from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import MIRROR, ROOT, Project, needs_mirror, refused, shown


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
    return any(
        words in body["messages"][-1]["content"] for words in ("1 or 0", "1 或 0")
    )


def by_step(body: Body) -> dict[str, float]:
    """A judge that rates each recorded answer a little lower than the one before."""
    text = body["messages"][-1]["content"]
    if asks_for_morals(body):
        return {"1": 0.9, "0": 0.1}
    place = next((place for answer, place in STEPS.items() if answer in text), 0)
    return {"1": 0.1 * place, "5": 1 - 0.1 * place}


def gradient(project: Project, server: FakeServer, *args: str) -> pytest.RunResult:
    """Run the check of a judge, by a copy of this repository's run file."""
    shutil.copy(
        ROOT / "thresholds" / "rating_gradient.toml", project.path / "gradient.toml"
    )
    models = ("--candidate", f"replay:{ANSWERS}", "--judge", f"{server.url}#fake")
    return project.run(*models, "--thresholds", "gradient.toml", *args)


def test_scores_that_fall_step_by_step_pass_and_each_request_is_reported(
    project: Project,
) -> None:
    with FakeServer(tokens=by_step) as server:
        gradient(project, server).assert_outcomes(passed=2)
        found = project.summary()["benchmarks"]["rating_gradient"]
        requests = found["groups"]["request"]
        assert len(requests) == 6
        for figures in (found["figures"], *requests.values()):
            assert figures["step_correlation"]["value"] == pytest.approx(1)
        assert found["answers"] == 36
        assert len(server.asked(judge=True)) == 2 * 36 + 1, (
            "and one to see whether it can be asked"
        )
        # The judge is shown as much as it is told.
        server.requests.clear()
        gradient(project, server, "--set", "judge.max_answer_chars=100")
    judged = [body["messages"][-1]["content"] for body in server.asked(judge=True)[1:]]
    assert len(judged) == 2 * 36
    assert any(len(answer) > 100 for answer in STEPS)
    for answer in (answer for answer in STEPS if len(answer) > 100):
        assert sum(f"{answer[:100]}\n[" in text for text in judged) == 2
        assert not any(answer in text for text in judged)


def test_a_threshold_file_says_how_much_the_judge_is_shown(project: Project) -> None:
    text = (ROOT / "thresholds" / "rating_gradient.toml").read_text()
    told = "[rating_gradient]\nmax_answer_chars=100"
    project.write("part.toml", text.replace("[rating_gradient]", told))
    with FakeServer(tokens=by_step) as server:
        gradient(project, server, "--thresholds", "part.toml")
    judged = [body["messages"][-1]["content"] for body in server.asked(judge=True)[1:]]
    assert not any(
        answer in text for text in judged for answer in STEPS if len(answer) > 100
    )


@pytest.mark.parametrize(
    ("tokens", "status", "said"),
    [
        (lambda body: {"1": 0.5, "5": 0.5}, 1, "a correlation of 0.00 (required: 0.8)"),
        (None, 4, "no log-probabilities"),
    ],
    ids=["no difference", "no log-probabilities"],
)
def test_a_judge_that_cannot_rate(
    project: Project,
    tokens: Callable[[Body], dict[str, float]] | None,
    status: int,
    said: str,
) -> None:
    with FakeServer(tokens=tokens) as server:
        result = gradient(project, server)
    assert result.ret == status
    assert said in shown(result)
    assert tokens or len(server.requests) == 1


def test_a_limit_takes_a_part_and_is_in_the_manifest(project: Project) -> None:
    project.write("part.toml", "[smoke_unsafe]\nlimit = 16\n")
    project.gate("--thresholds", "thresholds/default.toml", "--thresholds", "part.toml")
    found = project.summary()
    assert found["benchmarks"]["smoke_unsafe"]["prompts"] == 16
    assert found["benchmarks"]["smoke_safe"]["prompts"] == 80
    data = found["manifest"]["data"]
    assert (data["smoke_unsafe"]["limit"], data["smoke_safe"]["limit"]) == (16, None)
    assert len(project.asked(judge=False)) == 96
    said = "smoke_unsafe.language.zh*raise the limit of 1 prompts*leaves none"
    refused(project.gate("--limit", "1"), said)


@needs_mirror
def test_a_part_of_cfsafety_runs_and_its_gates_decide(project: Project) -> None:
    project.setenv("REFUSAL_CHECKS_DATA", str(MIRROR))

    def tokens(body: Body) -> dict[str, float]:
        if asks_for_morals(body):
            return {"1": 0.9, "0": 0.1}
        privacy = "# What to look for\n\nPrivacy." in body["messages"][0]["content"]
        return {"1": 0.9, "5": 0.1} if privacy else {"5": 1.0}

    with FakeServer(tokens=tokens) as server:
        model = f"{server.url}#fake"
        models = (
            "--candidate",
            model,
            "--judge",
            model,
            "--limit",
            "42",
            "--samples",
            "1",
        )
        result = project.run(*models, f"--thresholds={ROOT}/thresholds/cfsafety.toml")
    result.assert_outcomes(passed=22, failed=1)
    found = project.summary()["benchmarks"]["cfsafety"]
    assert found["prompts"] == 42
    category = found["groups"]["category"]
    assert category["Misleading"]["safety_score"]["value"] == pytest.approx(4.5)
    # Half of the category's prompts are English, of which the judge thinks little.
    assert category["PrivacyLeaks"]["safety_score"]["value"] == pytest.approx(
        0.9 * (1.4 + 5) / 2
    )
    assert found["distributions"]["PrivacyLeaks"]["n"] == 4
    assert len(found["safety_scores"]) == 42
