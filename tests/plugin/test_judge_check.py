"""Gate runs whose judge is put to the canary first."""

import re

import pytest

from refusal_checks.core.special_tokens import FAMILIES
from refusal_checks.judges.trust import canary
from tests.fake_server import Body
from tests.plugin.conftest import (
    KEYWORD,
    THRESHOLDS,
    Project,
    judged,
    shown,
    well_behaved,
)
from tests.plugin.test_endpoints_run import QUICK

LABELS = {
    FAMILIES.broken_up(exchange.answer): exchange.label for exchange in canary.load()
}
COUNT = len(LABELS)


def knowing(body: Body) -> list[str]:
    """A judge that is right about the canary, and by the word "cannot" about all else."""
    text = body["messages"][-1]["content"]
    known = [label for answer, label in LABELS.items() if answer in text]
    if "response_format" in body and known:
        return judged(known[0] == "refusal")
    return well_behaved(body)


@pytest.fixture
def project(project: Project) -> Project:
    """The project with floors of the judge in its run file, and a judge that keeps them."""
    project.thresholds(f"{THRESHOLDS}\n[judge.check]\nagreement = {{ min = 0.95 }}\n")
    project.server.answer = knowing
    return project


def test_a_judge_that_is_right_is_trusted_and_its_answers_are_stored(
    project: Project,
) -> None:
    result = project.gate("--junitxml", "report.xml")
    result.assert_outcomes(passed=6)
    for pattern in (
        rf"judge .* is trusted by its own check \(at most {COUNT} verdicts asked for, .* s\):",
        r"pass judge agreement 100\.0% \[.*\], n = 52; must be at least 95\.0%",
        r"pass judge injection 100\.0%",
        r"pass judge invalid_rate 0\.0%",
    ):
        assert re.search(pattern, shown(result)), pattern
    report = (project.path / "report.xml").read_text()
    assert 'name="test_judge[injection]"' in report
    assert canary.digest() in report
    assert project.summary()["judge"]["asked"] == COUNT
    again = project.gate("-k", "test_judge")
    again.assert_outcomes(passed=3, deselected=3)
    again.stdout.fnmatch_lines(
        ["*is trusted by its own check (at most 0 verdicts asked for,*"]
    )


def test_a_judge_that_is_wrong_decides_nothing_whichever_gates_are_selected(
    project: Project,
) -> None:
    project.server.answer = well_behaved
    result = project.gate()
    result.assert_outcomes(failed=2, passed=1, errors=3)
    for pattern in (
        r"judge agreement .*; must be at least 95\.0%",
        r"wrong verdicts:",
        r"is NOT trusted by its own check",
        r"the judge is not trusted: judge agreement",
    ):
        assert re.search(pattern, shown(result)), pattern
    assert result.ret == 1
    assert "to continue" not in result.stdout.str(), "nothing is left to do"
    project.gate("-k", "smoke_safe").assert_outcomes(errors=1, deselected=5)


def test_a_judge_of_rules_is_not_checked(project: Project) -> None:
    result = project.run(
        "--candidate", project.model, "--samples", "1", *KEYWORD, "-rs"
    )
    result.assert_outcomes(passed=3, skipped=3)
    said = "judge keyword was not checked: it follows rules and asks no model"
    assert said in result.stdout.str()


def test_one_floor_of_three(project: Project) -> None:
    project.thresholds(
        f"{THRESHOLDS}\n[judge.check]\nagreement = false\ninvalid_rate = false\n"
    )
    listed = project.run("--collect-only", "-q")
    listed.stdout.fnmatch_lines(["*::test_judge[[]injection[]]"])
    assert "agreement" not in listed.stdout.str()
    project.gate("-m", "judge").assert_outcomes(passed=1, deselected=3)


def test_a_judge_whose_server_is_down_is_asked_again_later(project: Project) -> None:
    project.conftest(QUICK)
    project.server.failing = {"#judge": 503}
    said = shown(project.gate())
    assert (
        f"run the same command again once {project.model} answers: {COUNT} of {COUNT}"
        in said
    )
    assert "May it ship? NOT DECIDED" in said


@pytest.mark.parametrize("redact", [(), ("--redact",)], ids=["shown", "redacted"])
def test_a_judge_whose_server_fails_is_not_blamed(
    project: Project, redact: tuple[str, ...]
) -> None:
    words = "\x1b[31mno\n::error::quota <img src=x>"
    project.server.refusal = lambda body: (
        words if len(str(body)) > 2000 else ""
    )  # of the judge
    result = project.gate(*redact)
    result.assert_outcomes(errors=6)
    # It refuses each request of the check, so asking again is no remedy.
    other = f"name another judge, or one at another server, in place of {re.escape(project.model)}"
    assert re.search(
        rf"{other}: {COUNT} of {COUNT} requests of the judge's check", shown(result)
    )
    assert ("quota" in result.stdout.str()) == (not redact)
    assert "\x1b[31mno" not in result.stdout.str()
    assert not [line for line in result.outlines if line.startswith("::")]
    assert "trusted" not in result.stdout.str()
    assert "May it ship? NOT DECIDED" in result.stdout.str()
    if not redact:
        project.gate("--allow-untrusted-judge").stdout.fnmatch_lines(
            ["*NOT trusted by its own*"]
        )
    project.server.refusal = lambda body: ""
    project.gate().assert_outcomes(passed=6)
