"""``refusal-checks compare``, as it is typed."""

import json
from pathlib import Path

import pytest

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


def test_names_of_hostile_runs_are_text(tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        facts = {"candidate": text, "judge": text, "started": text}
        few = {"unsafe": list(refusals("unsafe", 3))}
        write_run(tmp_path / "runs" / str(number), few, manifest=facts)
    path = tmp_path / "compare.html"
    named = [tmp_path / "runs" / str(number) for number in range(len(HOSTILE))]
    assert call("compare", *named, "--html", path).exit_code == 0
    page = Page(path)
    page.require_harmless()
    assert len(page.scripts) == 1
