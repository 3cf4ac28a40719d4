"""Rated benchmarks: scores that fall along answers that get worse, and CFSafety's figures."""

from __future__ import annotations

import csv

import pytest

from refusal_checks.benchmarks.suites.bundled import ANSWERS
from tests.fake_server import Body, FakeServer
from tests.project import MIRROR, ROOT, Outcome, Project, needs_mirror

GRADIENT = ROOT / "thresholds" / "rating_gradient.toml"


def _steps() -> dict[str, int]:
    """The place of each recorded answer among those to its request, by its text."""
    places: dict[str, int] = {}
    seen: dict[str, int] = {}
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            places[row["completion"]] = seen.setdefault(row["id"], 0)
            seen[row["id"]] += 1
    return places


STEPS = _steps()


def asks_for_morals(body: Body) -> bool:
    """Whether a request to the judge is the moral question."""
    text = body["messages"][-1]["content"]
    return "1 or 0" in text or "1 或 0" in text


def by_step(body: Body) -> dict[str, float]:
    """A judge that rates each recorded answer a little lower than the one before."""
    if asks_for_morals(body):
        return {"1": 0.9, "0": 0.1}
    text = body["messages"][-1]["content"]
    place = next((place for answer, place in STEPS.items() if answer in text), 0)
    return {"1": 0.1 * place, "5": 1 - 0.1 * place}


def gradient(
    project: Project, server: FakeServer, *files: str, **keys: object
) -> Outcome:
    """The check of a judge by this repository's run file."""
    models = {
        "candidate_model": f"replay:{ANSWERS}",
        "judge_model": f"{server.url}#fake",
    }
    return project.evaluate(GRADIENT, *files, **models, **keys)


def test_scores_that_fall_step_by_step_pass_and_each_request_is_reported(
    project: Project,
) -> None:
    with FakeServer(tokens=by_step) as server:
        found = gradient(project, server)
        assert found.counts == {"passed": 2}
        # One more, to see whether it can be asked.
        assert len(server.asked(judge=True)) == 2 * 120 + 1
    benchmark = found.result.summary.benchmarks["rating_gradient"]
    requests = benchmark.groups["request"]
    assert len(requests) == 20
    for figures in (benchmark.figures, *requests.values()):
        assert figures["step_correlation"].value == pytest.approx(1)
    assert benchmark.answers == 120


@pytest.mark.parametrize("place", ["key", "file"])
def test_the_judge_is_shown_as_much_as_it_is_told(project: Project, place: str) -> None:
    with FakeServer(tokens=by_step) as server:
        if place == "key":
            gradient(project, server, judge_max_answer_chars=100)
        else:
            project.write("part.toml", "[rating_gradient]\nmax_answer_chars = 100\n")
            gradient(project, server, "part.toml")
    judged = [body["messages"][-1]["content"] for body in server.asked(judge=True)[1:]]
    long_answers = [answer for answer in STEPS if len(answer) > 100]
    assert long_answers
    for answer in long_answers:
        assert sum(f"{answer[:100]}\n[" in text for text in judged) == 2
        assert not any(answer in text for text in judged)


def test_a_judge_that_cannot_tell_the_answers_apart_fails(project: Project) -> None:
    with FakeServer(tokens=lambda body: {"1": 0.5, "5": 0.5}) as server:
        found = gradient(project, server)
    assert found.answer == "no"
    found.says("a correlation of 0.00 (required: 0.8)")


def test_a_judge_without_log_probabilities_is_refused(project: Project) -> None:
    with FakeServer() as server:
        models = {"candidate_model": f"replay:{ANSWERS}", "judge_model": server.url}
        project.refuses("no log-probabilities", files=[GRADIENT], **models)
        assert len(server.requests) == 1


def thinks_little_of_privacy(body: Body) -> dict[str, float]:
    """Rates what is English about privacy 1.4, and all else 5."""
    if asks_for_morals(body):
        return {"1": 0.9, "0": 0.1}
    if "# What to look for\n\nPrivacy." in body["messages"][0]["content"]:
        return {"1": 0.9, "5": 0.1}
    return {"5": 1.0}


@pytest.mark.slow
@needs_mirror
def test_a_part_of_cfsafety_is_rated_and_its_gates_decide(project: Project) -> None:
    project.setenv("REFUSAL_CHECKS_DATA", str(MIRROR))
    with FakeServer(tokens=thinks_little_of_privacy) as server:
        model = f"{server.url}#fake"
        found = project.evaluate(
            ROOT / "thresholds" / "cfsafety.toml",
            candidate_model=model,
            judge_model=model,
            limits_prompts=42,
            sampling_samples=1,
            trust_allow_untrusted_judge=True,
        )
    # The ratings of this judge follow no order.
    assert found.counts == {"passed": 23, "failed": 2}
    benchmark = found.summary["benchmarks"]["cfsafety"]
    rated = sum(one["n"] for one in benchmark["distributions"].values())
    assert benchmark["prompts"] == rated == 42
    scores = {
        category: figures["safety_score"]["value"]
        for category, figures in benchmark["groups"]["category"].items()
    }
    assert scores["Misleading"] == pytest.approx(4.5)
    # Half of the category's prompts are English.
    assert scores["PrivacyLeaks"] == pytest.approx(0.9 * (1.4 + 5) / 2)
    assert benchmark["distributions"]["PrivacyLeaks"]["n"] == 4
