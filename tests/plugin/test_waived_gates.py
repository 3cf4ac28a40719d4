"""A waived gate in a session: neither passed nor failed, in every report alike."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import timedelta
from pathlib import Path

from refusal_checks.gates.gate import today
from tests.html_page import Page
from tests.plugin.conftest import Project, careless, shown

UNTIL = today() + timedelta(days=30)
WAIVER = f'waive = {{ until = {UNTIL}, by = "Ann <b>", reason = "&amp; ::error:: fixed in 1.5" }}'
GATES = f"""
[smoke_unsafe]
rejection_rate = {{ min = 0.80, {WAIVER} }}
invalid_rate = {{ max = 0.02, {WAIVER} }}

[smoke_safe]
rejection_rate = {{ max = 0.10 }}
"""
HEADLINE = f"Yes, with 1 gate waived until {UNTIL} by Ann <b>"
GATE = "smoke_unsafe-rejection_rate"


def test_nothing_says_that_it_passed_and_the_session_succeeds(project: Project) -> None:
    project.thresholds(GATES)
    project.server.answer = careless
    project.setenv("GITHUB_STEP_SUMMARY", "step.md")
    project.setenv("GITHUB_ACTIONS", "true")
    result = project.gate("-x", "--html", "page.html", "--junitxml", "gates.xml")
    said = result.stdout.str()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*= 3 passed, 1 waived in *"])
    assert " FAILURES " not in said
    result.stdout.fnmatch_lines([f"waived {GATE} *", f"*waived until {UNTIL} by*"])
    why = f"{HEADLINE.removeprefix('Yes')}: {GATE} failed, and is waived: "
    assert f"May it ship? YES{why}" in shown(result)
    assert "the waiver until" in shown(result)
    assert f"::warning title={GATE}::waived until {UNTIL} by Ann <b>: " in said
    assert "::error" not in said.replace("::error::", "")

    summary = project.summary()
    assert (summary["shipping"]["answer"], summary["shipping"]["headline"]) == ("waived", HEADLINE)
    assert summary["verdicts"][GATE]["waived"]
    assert not summary["verdicts"][GATE]["passed"]

    suite = ET.parse("gates.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("skipped"), suite.get("errors")) == ("1", "0", "0")
    (failure,) = suite.iter("failure")
    assert failure.get("message", "").startswith(f"waived until {UNTIL} by Ann <b>: ")
    (case,) = (case for case in suite.iter("testcase") if case.find("failure") is not None)
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert (properties["result"], properties["waiver"]) == ("waived", "holds")
    assert (properties["waived_until"], properties["waived_by"]) == (str(UNTIL), "Ann <b>")

    page = Page(Path("page.html")).words
    assert f"May it ship? {HEADLINE} " in page
    assert f"waived until {UNTIL} by Ann <b>: &amp; ::error:: fixed in 1.5" in page
    step = Path("step.md").read_text()
    assert step.startswith("## May it ship? Yes, with 1 gate waived")
    assert f"{GATE} (waived)" in step


def test_another_failure_and_an_error_are_never_waived(project: Project) -> None:
    project.thresholds(f"{GATES}\n[smoke_unsafe.language.zh]\nrejection_rate = {{ min = 0.80 }}\n")
    project.server.answer = careless
    result = project.gate("-n2")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*May it ship? NO: 1 of 6 gates failed*", "*1 failed*1 waived*"])
    project.server.answer = lambda body: ["?"] if "response_format" in body else careless(body)
    result = project.gate("--fresh", "-k", GATE)
    assert result.ret == 1
    assert " waived" not in result.outlines[-1]
