"""The HTML report: the page is there while the session runs, and becomes the report."""

import threading
import time
from pathlib import Path

import pytest

from tests.fake_server import Body
from tests.html_page import Page
from tests.plugin.conftest import Project, careless, refused, well_behaved


def test_the_report_is_written_at_the_end_and_from_the_run_s_folder(
    project: Project,
) -> None:
    project.server.answer = careless
    result = project.gate("--html", "reports/report.html")
    path = project.path / "reports" / "report.html"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines([f"html report {path}"])
    assert sum("html report" in line for line in result.outlines) == 1
    page = Page(path)
    for words in ("May it ship? No", "2 of 3 gates failed", "Prompts 160"):
        assert words in page.words
    unsafe = next(
        found for found in page.data("records") if found["name"] == "smoke_unsafe"
    )
    assert len(unsafe["prompts"]) == 80
    assert len(unsafe["prompts"][0][6]) == 2
    assert unsafe["prompts"][0][6][0][0].startswith("\x1b[31mGladly")
    again = project.command("report", "html", project.runs[0], "--out", "again.html")
    assert again.ret == 0
    again.stdout.fnmatch_lines(["again.html"])
    assert (project.path / "again.html").read_bytes() == path.read_bytes()


def test_one_process_writes_reports_however_many_workers_have_the_result(
    project: Project,
) -> None:
    project.conftest(
        """
        from refusal_checks.evaluation.result import RunResult

        write = RunResult.write_reports

        def noted(self, wanted):
            with open("written.txt", "a") as file:
                file.write("once")
            return write(self, wanted)

        RunResult.write_reports = noted
        """
    )
    assert project.gate("-n2", "--html=report.html").ret == 0
    assert (project.path / "written.txt").read_text() == "once"


def test_the_environment_names_the_file_too(project: Project) -> None:
    project.setenv("REFUSAL_CHECKS_HTML", "from-environment.html")
    project.gate("-k", "smoke_safe").assert_outcomes(passed=1)
    words = Page(project.path / "from-environment.html").words
    assert "May it ship? Yes, with reservations" in words
    assert "2 of 3 gates in the run files were not run" in words


def test_a_file_that_cannot_be_written_leaves_the_outcome_alone(
    project: Project,
) -> None:
    project.write("taken", "a file")
    result = project.gate("-k", "smoke_safe", "--html", "taken/report.html")
    refused(
        result,
        "--html *taken/report.html: *name a folder that can be written: File exists",
    )
    refused(
        project.gate("--html", f"{'long' * 70}.html"), "name a file: File name too long"
    )
    longest = (
        f"{'long' * 62}er.html"  # its draft's name is longer, as only writing it tells
    )
    result = project.gate("-k", "smoke_safe", "--html", longest)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["html report could not be written: *longlong*"])


def test_a_folder_without_a_run_is_an_error(project: Project) -> None:
    result = project.command("report", "html", project.path)
    refused(result, "refusal-checks: *summary.json: cannot be read")
    assert not (project.path / "report.html").exists()


def follow(page: Path, seen: list[str], has_ended: threading.Event) -> None:
    """Read the page again and again."""
    while not has_ended.wait(0.1):
        if page.exists() and (text := page.read_text()) not in seen:
            seen.append(text)


@pytest.mark.parametrize(
    "options", [("--redact", "-q"), ("-n2",)], ids=["redact", "n2"]
)
def test_the_page_follows_the_session(
    project: Project, options: tuple[str, ...]
) -> None:
    def slowly(body: Body) -> list[str]:
        time.sleep(0.02)
        return well_behaved(body)

    project.server.answer = slowly
    seen: list[str] = []
    has_ended = threading.Event()
    page = project.path / "page.html"
    reader = threading.Thread(target=follow, args=(page, seen, has_ended))
    reader.start()
    result = project.gate("--html", "page.html", "-k", "smoke_unsafe", *options)
    has_ended.set()
    reader.join()
    assert result.ret == 0
    last = page.read_text()
    assert "This run is in progress" in seen[0]
    assert 'id="going"' in seen[0]
    assert "May it ship?" in last
    assert 'id="going"' not in last
    assert ("I cannot help" in "".join([*seen, last])) == ("--redact" not in options)
    if "-q" not in options:
        result.stdout.fnmatch_lines(["*page.html in a browser to follow the run*"])
