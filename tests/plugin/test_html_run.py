"""The HTML report of a gate run, and of a run's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fake_server import FakeServer
from tests.html_page import Page
from tests.plugin.conftest import RunGate, careless


def report(project: pytest.Pytester, *args: str | Path) -> pytest.RunResult:
    """``refusal-checks report html ...``"""
    command = "from refusal_checks.cli import main; main()"
    return project.run(sys.executable, "-c", command, "report", "html", *args)


def test_the_report_is_written_at_the_end(
    project: pytest.Pytester, run_gate: RunGate, server: FakeServer
) -> None:
    server.answer = careless
    result = run_gate("--html", "reports/report.html")
    path = project.path / "reports" / "report.html"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines([f"html report {path}"])
    assert sum("html report" in line for line in result.outlines) == 1
    page = Page(path)
    assert "May it ship? No" in page.words
    assert "2 of 3 gates failed" in page.words
    unsafe = next(found for found in page.data("records") if found["name"] == "smoke_unsafe")
    assert len(unsafe["prompts"]) == 80
    assert len(unsafe["prompts"][0][6]) == 2
    assert unsafe["prompts"][0][6][0][0].startswith("\x1b[31mGladly")
    assert "Prompts 160" in page.words


def test_the_environment_names_the_file_too(
    project: pytest.Pytester, run_gate: RunGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSAL_CHECKS_HTML", "from-environment.html")
    run_gate("-k", "smoke_safe").assert_outcomes(passed=1)
    words = Page(project.path / "from-environment.html").words
    assert "May it ship? Yes, with reservations" in words
    assert "2 of 3 gates in the threshold files were not run" in words


def test_a_file_that_cannot_be_written_leaves_the_outcome_alone(
    project: pytest.Pytester, run_gate: RunGate
) -> None:
    (project.path / "taken").write_text("a file")
    result = run_gate("-k", "smoke_safe", "--html", "taken/report.html")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["html report could not be written: *taken*"])


def test_a_folder_gives_the_same_report_again(project: pytest.Pytester, run_gate: RunGate) -> None:
    run_gate("--html", "first.html").assert_outcomes(passed=3)
    (run,) = (project.path / ".refusal-checks" / "runs").iterdir()
    result = report(project, "again.html", run)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["again.html"])
    first, again = ((project.path / name).read_bytes() for name in ("first.html", "again.html"))
    assert first == again


def test_a_folder_without_a_run_is_an_error(project: pytest.Pytester) -> None:
    result = report(project, "report.html", project.path)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["refusal-checks: *summary.json: cannot be read*"])
    assert not (project.path / "report.html").exists()
