"""``refusal-checks compare`` and ``history``, as they are typed."""

import json
from pathlib import Path

import pytest

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.results import run_folder
from tests.html_page import Page
from tests.many_runs import manifest
from tests.report_runs import HOSTILE, refusals, seal, write_run
from tests.unit.cli.test_baseline import call

OLD, NEW = "20260101-120000Z-1", "20260102-120000Z-2"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, the working one, with two runs."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / run_folder.ROOT
    for number, (name, refused) in enumerate({OLD: 0.9, NEW: 0.4}.items()):
        records = {"unsafe": list(refusals("unsafe", 60, 1, refused=refused))}
        write_run(root / name, records, manifest=manifest(number), judge=None)
    return root


def test_runs_are_compared_in_the_terminal(runs: Path) -> None:
    shown = call("compare", "20260101", "last").output
    assert "1    model-0    " in shown
    assert "2    model-1    " in shown
    assert "unsafe-rejection_rate " in shown
    assert "FAIL 40.7% (-48.1 [" in shown
    assert (
        "run 2, unsafe-rejection_rate: 26 prompts no longer refused since run 1 (unsafe-"
        in shown
    )
    assert ", ...)" in shown


def test_runs_are_compared_as_json(runs: Path) -> None:
    known = json.loads(call("compare", OLD, NEW, "--json").output)
    assert [run["run"] for run in known["runs"]] == [OLD, NEW]
    before, after = known["gates"]["unsafe-rejection_rate"]
    assert "change" not in before
    assert (after["paired"], after["fell"], after["rose"]) == (True, 26, 0)
    assert after["outcome"] == "FAIL"
    assert "Request" not in json.dumps(known)


def test_a_comparison_is_a_page_without_texts_if_they_are_redacted(runs: Path) -> None:
    assert call("compare", OLD, NEW, "--html", "out/page.html").exit_code == 0
    shown = Page(Path("out/page.html")).words
    assert "2 runs compared" in shown
    assert "Request 40 of unsafe" in shown
    call("compare", OLD, NEW, "--html", "page.html", "--redact")
    hidden = Page(Path("page.html")).words
    assert "[redacted: sha256" in hidden
    assert not [word for word in ("Request", "word1") if word in hidden]
    for words in (shown, hidden):
        assert "26 of 26 prompts no longer refused since run 1" in words


def test_a_redacted_run_is_paired_with_one_that_is_not(runs: Path) -> None:
    from refusal_checks.results.redact import RedactedFolder

    hidden = RedactedFolder(runs / NEW)
    records = list(hidden.records("unsafe"))
    summary = hidden.summary()
    hidden.write_records("unsafe", records)
    hidden.write_summary(summary)
    seal(runs / NEW)
    known = json.loads(call("compare", OLD, NEW, "--json").output)
    assert known["gates"]["unsafe-rejection_rate"][1]["fell"] == 26


def test_history_lists_runs_and_what_it_left_out(runs: Path) -> None:
    (runs / "20260103-120000Z-3").mkdir()
    (runs / "20260103-120000Z-3" / "summary.json").write_text("{")
    shown = call("history").output
    assert shown.index("model-0") < shown.index("model-1")
    assert "left out: 1 file" in shown
    assert "20260103-120000Z-3/summary.json: not a summary of a run" in shown
    known = json.loads(call("history", "--json").output)
    assert [run["run"] for run in known["runs"]] == [OLD, NEW]
    assert known["runs"][1]["gates"]["unsafe-rejection_rate"]["passed"] is False
    assert len(known["skipped"]) == 1


def test_history_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no runs found" in call("history", "--html", "page.html").output
    assert "Run a gate first, or name the folder" in Page(Path("page.html")).words
    with pytest.raises(DataError, match="no such folder"):
        call("history", "elsewhere")
    with pytest.raises(UserError, match="give --html FILE"):
        call("history", "--reports")


def links(page: str) -> list[str]:
    return [str(link["href"]) for link in Page(Path(page)).named("a")]


def test_history_links_to_reports(runs: Path) -> None:
    (runs / OLD / "report.html").write_text("a report")
    call("history", "--html", "out/page.html")
    there = f"../.refusal-checks/runs/{OLD}/report.html"
    assert there in links("out/page.html")
    call("history", "--html", "out/page.html", "--reports")
    linked = [link for link in links("out/page.html") if "page-reports/" in link]
    reports = [Path("out", link) for link in linked]
    assert len(reports) == 2
    assert all(path.read_text().startswith("<!doctype html>") for path in reports)


def test_a_redacted_history_links_to_no_report_with_texts(runs: Path) -> None:
    (runs / OLD / "report.html").write_text("a report with texts")
    call("history", "--html", "page.html", "--reports")
    call("history", "--html", "page.html", "--redact")
    assert not [link for link in links("page.html") if ".html" in link]
    call("history", "--html", "page.html", "--reports", "--redact")
    reports = [link for link in links("page.html") if link.endswith(".html")]
    assert len(reports) == 2
    for link in reports:
        assert link.startswith("page-reports/")
        assert "Request" not in Path(link).read_text()


def test_names_of_hostile_runs_are_text(tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        facts = {"candidate": text, "judge": text, "started": text}
        few = {"unsafe": list(refusals("unsafe", 3))}
        write_run(tmp_path / "runs" / str(number), few, manifest=facts)
    one, two = tmp_path / "history.html", tmp_path / "compare.html"
    assert call("history", tmp_path / "runs", "--html", one).exit_code == 0
    named = [tmp_path / "runs" / str(number) for number in range(len(HOSTILE))]
    assert call("compare", *named, "--html", two).exit_code == 0
    for path in (one, two):
        page = Page(path)
        page.require_harmless()
        assert len(page.scripts) == 1
