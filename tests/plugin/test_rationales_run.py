"""Gate runs that ask for reasons afterwards: verdicts alone, and reasons where they are shown."""

import json
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from refusal_checks.judges.trust import canary
from tests.fake_server import Body
from tests.plugin.conftest import AGAIN, Project, judged, refused, well_behaved

ONE = ("--samples", "1", "-k", "smoke_unsafe-rejection")
OFFENDERS = ("--set", "judge.rationales=offenders", *ONE)
LOW = "[smoke_unsafe]\nrejection_rate = { max = 0.10 }\ninvalid_rate = false\n"


def way(body: Body) -> str:
    """Who is asked for what: the candidate, a verdict alone, or a whole one."""
    form = body.get("response_format")
    if form is None:
        return "candidate"
    return "alone" if form["json_schema"]["schema"].get("type") == "string" else "whole"


def brief(body: Body) -> list[str]:
    """Refuses the unsafe prompts; with reasons, the judge says compliance of a tenth of them."""
    if way(body) == "candidate":
        return well_behaved(body)
    text = body["messages"][-1]["content"]
    says_no = ("cannot" in text) is not ("mood" in body.get("chat_template_kwargs", {}))
    if way(body) == "alone":
        return ['"refusal"' if says_no else '"compliance"']
    return judged(says_no and "#1" not in text, "says <b>so")


@pytest.fixture
def project(project: Project) -> Project:
    project.server.answer = brief
    return project


def asked(project: Project) -> Counter[str]:
    return Counter(map(way, project.server.requests))


def test_reasons_are_asked_for_where_they_are_shown_and_of_a_sample(
    project: Project,
) -> None:
    project.write("low.toml", LOW)
    failing = ("--thresholds", "low.toml", "--offenders", "30")
    run = (*OFFENDERS, *failing, "--junitxml", "report.xml")
    result = project.gate(*run)
    result.assert_outcomes(failed=1)
    found = project.summary()["benchmarks"]["smoke_unsafe"]
    reasons = found["reasons"]
    assert asked(project) == Counter(candidate=80, alone=80, whole=reasons["asked"])
    assert (reasons["answers"], reasons["sampled"], reasons["given"]) == (80, 20, 20)
    assert 30 <= reasons["asked"] <= 50
    assert reasons["missing"] == 0
    assert (
        sum(found["refusal_categories"].values()) == 20
    )  # those of offenders are not chance
    assert found["refusal_categories"]["direct_refusal"] == reasons["agree"]
    assert found["figures"]["rejection_rate"]["value"] == 1.0
    result.stdout.fnmatch_lines(
        [
            "*rationale: *says <b>so",
            "smoke_unsafe: verdicts alone; ways of refusing are counted in a sample of 20 of 80 *",
            f"  *asked for afterwards: {reasons['agree']} of 20 come with the same verdict",
        ]
    )
    if reasons["contradicted"]:
        records = next(project.runs[-1].glob("records/*.jsonl")).read_text()
        assert "asked for its reasons afterwards, the judge says compliance" in records
    values = {
        p.get("name"): p.get("value") for p in ET.parse("report.xml").iter("property")
    }
    assert values["refusal_categories_of"] == "a sample of 20 of 80 answers"
    before = len(project.server.requests)
    again = project.gate(*run)
    again.stdout.fnmatch_lines(
        ["*0 answers to generate, 0 verdicts to ask for at most*"]
    )
    assert len(project.server.requests) == before + 2 * AGAIN
    assert project.summary()["benchmarks"] == {"smoke_unsafe": found}


def test_the_two_ways_are_two_judges(project: Project) -> None:
    project.gate(*ONE)
    assert asked(project) == Counter(candidate=80, whole=80)
    project.gate(*OFFENDERS)
    assert asked(project) == Counter(
        candidate=80 + AGAIN, whole=80, alone=80
    )  # reasons are stored
    found = project.summary()
    assert found["manifest"]["verdicts_alone"] == ["smoke_unsafe"]
    assert found["benchmarks"]["smoke_unsafe"]["reasons"]["given"] == 20
    result = project.gate(*ONE, "--baseline", "last")
    refused(result, "not comparable", "other rationales: offenders then, all now")


def test_a_repository_sets_it_once_and_any_judge_can_be_named(project: Project) -> None:
    written = project.path / "thresholds" / "default.toml"
    gates = written.read_text()
    project.thresholds(f'{gates}\n[judge]\nrationales = "offenders"\n')
    project.gate(*ONE, "--redact")
    assert asked(project) == Counter(candidate=80, alone=80)  # no texts, no reasons
    assert project.summary()["benchmarks"]["smoke_unsafe"]["refusal_categories"] == {}
    result = project.gate(*ONE, "--judge-prompt", "harmbench")
    result.stdout.fnmatch_lines(["*rationales*offenders changes nothing: *"])
    project.thresholds(f'{gates}\n[judge]\nrationales = "some"\n')
    refused(project.gate(*ONE), "rationales = 'some': *all*offenders")


@pytest.mark.nightly
def test_several_verdicts_are_drawn_alone(
    project: Project,
) -> None:
    many = ("--set", "judge.samples=3", "--set", "judge.temperature=0.6")
    project.gate(*OFFENDERS, *many)
    found = project.summary()["benchmarks"]["smoke_unsafe"]["reasons"]
    assert (found["asked"], found["given"], found["missing"]) == (20, 20, 0)
    assert asked(project) == Counter(candidate=80, alone=80 * 3, whole=20 * 3)


def test_each_of_several_judges_gives_reasons_also_where_none_prevails(
    project: Project,
) -> None:
    moods = ("--set", 'judge.template_variables=[{},{mood="contrary"}]')
    result = project.gate(*OFFENDERS, "--judge", project.model, *moods)
    result.stdout.fnmatch_lines(
        ["smoke_unsafe: verdicts alone; no ways of refusing are counted*"]
    )
    found = project.summary()["benchmarks"]["smoke_unsafe"]["reasons"]
    assert (found["asked"], found["sampled"], found["missing"]) == (80, 0, 0)
    assert asked(project) == Counter(candidate=80, alone=160, whole=160)
    listed = (project.runs[-1] / "disagreements.jsonl").read_text()
    votes = [vote for line in listed.splitlines() for vote in json.loads(line)["votes"]]
    assert len(votes) == 160
    assert all("says <b>so" in vote["rationale"] for vote in votes)


def test_a_template_without_a_place_for_it_ends_the_run_first(project: Project) -> None:
    project.write("own.md", "{{ request }} {{ answer }}")
    result = project.gate(*OFFENDERS, "--judge-prompt", "own.md")
    refused(result, "judge.rationales=offenders: in own.md, write a line ===== output")
    assert project.server.requests == []


def test_mistakes_on_the_canary_have_reasons(project: Project) -> None:
    project.thresholds(f"{LOW}[judge.check]\nagreement = {{ min = 0.95 }}\n")
    result = project.gate("-m", "judge", "--set", "judge.rationales=offenders")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*rationale: *says <b>so*"])
    checks = project.summary()["judge"]["checks"]
    mistakes = [each for check in checks for each in check["mistakes"]]
    assert asked(project) == Counter(alone=len(canary.load()), whole=len(mistakes))
    assert all(each["rationale"] for each in mistakes)
