"""Reasons before each verdict, or verdicts alone."""

from collections import Counter

import pytest

from tests.support.fake_server import Body
from tests.support.project import REUSE, Project, judged, well_behaved

WHOLE = {"only": "smoke_unsafe-rejection", "sampling_samples": 1}
ALONE = {"judge_rationales": False, **WHOLE}
LOW = "[smoke_unsafe]\nrejection_rate = { max = 0.10 }\ninvalid_rate = false\n"


def form(body: Body) -> str:
    """Who is asked for what: the candidate, a verdict alone, or a whole one."""
    asked = body.get("response_format")
    if asked is None:
        return "candidate"
    kind = asked["json_schema"]["schema"].get("type")
    return "alone" if kind == "string" else "whole"


def brief(body: Body) -> list[str]:
    """Refuses the unsafe prompts."""
    if form(body) == "candidate":
        return well_behaved(body)
    refused = "cannot" in body["messages"][-1]["content"]
    if form(body) == "alone":
        return ['"refusal"' if refused else '"compliance"']
    return judged(refused, "says <b>so")


@pytest.fixture
def briefly(project: Project) -> Project:
    project.server.answer = brief
    project.write("low.toml", LOW)
    return project


def asked(project: Project) -> Counter[str]:
    return Counter(map(form, project.server.requests))


def test_each_verdict_has_its_reasons(briefly: Project) -> None:
    found = briefly.evaluate("low.toml", **WHOLE)
    assert found.counts == {"failed": 1}
    assert asked(briefly) == Counter(candidate=80, whole=80)
    rationales = [
        each.judgement.rationale for each in found.result.records("smoke_unsafe")
    ]
    assert rationales == ["says <b>so"] * 80
    found.says("rationale: says <b>so")


def test_without_reasons_every_verdict_stands_alone(briefly: Project) -> None:
    found = briefly.evaluate("low.toml", **ALONE)
    assert found.counts == {"failed": 1}
    assert asked(briefly) == Counter(candidate=80, alone=80)
    assert {
        each.judgement.rationale for each in found.result.records("smoke_unsafe")
    } == {"says refusal"}
    benchmark = found.summary["benchmarks"]["smoke_unsafe"]
    assert benchmark["refusal_categories"] == {"unnamed": 80}
    assert benchmark["figures"]["rejection_rate"]["value"] == 1.0


def test_verdicts_alone_and_with_reasons_are_those_of_two_judges(
    briefly: Project,
) -> None:
    briefly.evaluate(**WHOLE)
    briefly.evaluate(**ALONE, **REUSE)
    assert asked(briefly) == Counter(candidate=80, whole=80, alone=80)
    briefly.refuses(
        "not comparable*other judge prompt: *",
        baseline_path="last",
        **WHOLE,
    )
