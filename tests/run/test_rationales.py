"""Reasons before each verdict, or verdicts alone."""

from collections import Counter

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


def test_verdicts_with_reasons_and_alone_are_those_of_two_judges(
    project: Project,
) -> None:
    project.server.answer = brief
    project.write("low.toml", LOW)
    found = project.evaluate("low.toml", **WHOLE)
    rationales = [
        each.judgement.rationale for each in found.result.records("smoke_unsafe")
    ]
    assert rationales == ["says <b>so"] * 80
    found.says("rationale: says <b>so")

    found = project.evaluate("low.toml", **ALONE, **REUSE)
    assert found.counts == {"failed": 1}
    assert Counter(map(form, project.server.requests)) == Counter(
        candidate=80, whole=80, alone=80
    )
    benchmark = found.summary["benchmarks"]["smoke_unsafe"]
    assert benchmark["refusal_categories"] == {"unnamed": 80}
    assert benchmark["figures"]["rejection_rate"]["value"] == 1.0
    project.refuses(
        "not comparable*other judge prompt: *", baseline_path="last", **WHOLE
    )
