"""A waived gate in a session: neither passed nor failed, in every report alike."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import timedelta
from pathlib import Path

import pytest

from refusal_checks.gates.gate import today
from tests.fake_server import FakeServer
from tests.html_page import Page
from tests.plugin.conftest import RunGate, careless

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


def gate_by_waiver(project: pytest.Pytester, server: FakeServer, gates: str = GATES) -> None:
    (project.path / "thresholds" / "default.toml").write_text(gates)
    server.answer = careless


def test_nothing_says_that_it_passed_and_the_session_succeeds(
    project: pytest.Pytester,
    server: FakeServer,
    run_gate: RunGate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate_by_waiver(project, server)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "step.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = run_gate("-x", "--html", "page.html", "--junitxml", "gates.xml")
    said = result.stdout.str()
    assert result.ret == 0, said
    result.stdout.fnmatch_lines(["*= 3 passed, 1 waived in *"])
    assert " FAILURES " not in said
    result.stdout.fnmatch_lines(
        ["waived smoke_unsafe-rejection_rate *", f"*waived until {UNTIL} by*"]
    )
    words = " ".join(said.split())
    assert (
        f"May it ship? YES{HEADLINE.removeprefix('Yes')}: {GATE} failed, and is waived: " in words
    )
    assert "the waiver until" in words
    assert f"::warning title={GATE}::waived until {UNTIL} by Ann <b>: " in said
    assert "::error" not in said.replace("::error::", "")

    (path,) = project.path.glob(".refusal-checks/runs/*/summary.json")
    summary = json.loads(path.read_text())
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


@pytest.mark.parametrize("options", [("-n2",)])
def test_another_failure_and_an_error_are_never_waived(
    project: pytest.Pytester, server: FakeServer, run_gate: RunGate, options: tuple[str, ...]
) -> None:
    more = "\n[smoke_unsafe.language.zh]\nrejection_rate = { min = 0.80 }\n"
    gate_by_waiver(project, server, GATES + more)
    result = run_gate(*options)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*May it ship? NO: 1 of 6 gates failed*", "*1 failed*1 waived*"])
    server.answer = lambda body: ["?"] if "response_format" in body else careless(body)
    result = run_gate("--fresh", "-k", GATE, *options)
    assert result.ret == 1
    assert " waived" not in result.stdout.lines[-1]
