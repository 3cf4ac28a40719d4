"""What a run leaves: its folder, the reports made of it, and the commands that read it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from refusal_checks import load_run
from refusal_checks.metrics import METRICS
from refusal_checks.results.events import Event
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from tests.support.html_page import Page
from tests.support.project import ANSWERS, KEYWORD, REUSE, Project, careless


def test_a_run_is_listed_and_shown_and_has_page_and_frame(project: Project) -> None:
    project.server.answer = careless
    found = project.evaluate(reports_html="page.html")
    found.says("under-refusal 100.0% [[]*[]] (safety) | over-refusal 0.0% [[]*[]]")
    header, row = project.call("runs", "list")[1].splitlines()
    assert header.split() == ["run", "answer", "passed", "candidate"]
    run, answer, *counts, candidate = row.split()
    assert (answer, counts) == ("no", ["1", "of", "3"])
    assert candidate[-8:] == project.model[-8:]
    for name in ("last", run, project.runs[0]):
        _, shown = project.call("runs", "list", name, "-v")
        assert " ".join(shown.split()).endswith(found.result.decision.question)
    page = Path("page.html").read_text()
    assert "May it ship? No" in Page(Path("page.html")).words
    project.call("report", "html", found.result.folder, "--out", "again.html")
    assert Path("again.html").read_text() == page
    frame = found.result.frame()
    assert len(frame) == ANSWERS
    assert {*frame["benchmark"]} == {"smoke_unsafe", "smoke_safe"}
    assert {*frame["label"]} == {"compliance"}


def test_runs_that_did_not_end_are_listed_too(project: Project) -> None:
    name = "20260102-030405Z-6"
    broken = Manifest(candidate="org/\u001b[31mmodel", judge="j")
    RunFolder(project.path / "runs" / name).begin(RunSummary(broken))
    times = '"started": "2026-01-02T03:04:05", "finished": "2026-01-02T03:04:05Z"'
    odd = [
        "[]",
        '{"manifest": [1], "verdicts": [], "errors": 7}',
        '{"verdicts": {"gate": null}}',
        "{}",
        f'{{"format": 4, "manifest": {{{times}}}, "benchmarks": {{}}}}',
    ]
    for number, text in enumerate(odd):
        project.write(f"runs/20260102-030406Z-{number}/summary.json", text)
    listed = project.call("runs", "list", "--runs", "runs")[1].splitlines()
    assert listed[1].split() == [name, "unfinished", "org/model"]
    assert ["not readable" in line for line in listed[2:]] == [True] * 5
    said = project.call("runs", "list", "--runs", "no")[1]
    assert said.endswith("--runs no: name the folder of the runs: no runs found\n")
    said = project.call("runs", "list", name, "--runs", "runs")[1]
    assert "NOT DECIDED: the run is unfinished: 0 of 0 prompts are judged" in said


def test_runs_lie_where_the_spec_says_and_are_found_there(project: Project) -> None:
    """Relative to the folder of the call; the store stays where it is."""
    moved = project.path.parent / f"{project.path.name}-moved"
    run = {"only": "smoke_safe", "sampling_samples": 1}
    found = project.evaluate(reports_runs=f"../{moved.name}", **run)
    assert found.result.folder.parent == moved
    assert (found.result.folder / ".gitignore").read_text() == "*\n"
    own = project.store.parent
    names = [".gitignore", "store.sqlite", "store.sqlite.lock"]
    assert sorted(path.name for path in own.iterdir()) == names
    assert found.result.folder.name in project.call("runs", "list", "--runs", moved)[1]

    project.setenv("REFUSAL_CHECKS_RUNS", f"../{moved.name}")
    again = project.evaluate(baseline_path="last", **run, **REUSE)
    again.says("0 answers to generate, at most 0 verdicts", f"run folder {moved}/")
    assert len(project.call("runs", "list")[1].splitlines()) == 3


def test_a_report_that_cannot_be_written_leaves_the_outcome_alone(
    project: Project,
) -> None:
    def take_the_folder(_: Event) -> None:
        shutil.rmtree("gone", ignore_errors=True)
        Path("gone").touch()

    project.listener = take_the_folder
    found = project.evaluate(only="smoke_safe", reports_html="gone/page.html")
    assert found.counts == {"passed": 1}
    found.says("html report could not be written: *gone")


def test_what_cannot_be_kept_is_an_error_that_says_why(project: Project) -> None:
    def lose(*_: object) -> None:
        raise OSError(28, "No space left on device", "the disk")

    project.patch.setattr(RunFolder, "write_records", lose)
    found = project.evaluate(only="smoke_safe-rejection_rate")
    assert found.counts == {}
    found.says("the disk: No space left on device; fix this")
    assert load_run("last").decision.answer == found.answer == "open"


BOOM = """
from refusal_checks.metrics.metric import LABELS, mean

@mean(LABELS)
def boom_rate(answers):
    return 1 / 0
"""
STRICT = """
from refusal_checks.judges.judge import Judge

class Strict(Judge):
    name = "strict"

    async def judge(self, prompt, completion):
        raise KeyError("none")

def build(setup):
    return Strict()
"""


@pytest.mark.parametrize(
    ("code", "keys", "tests", "said"),
    [
        (
            BOOM,
            "boom_rate = { max = 0.5 }\n",
            {"ours-rejection_rate": "passed", "ours-boom_rate": "error"},
            "strict.py:6: the metric boom_rate raised ZeroDivisionError",
        ),
        (
            STRICT,
            'judge = "strict"\n',
            {},
            "KeyError: 'none' (*strict.py:8)",
        ),
    ],
    ids=["metric", "judge"],
)
def test_a_stranger_s_code_that_raises_is_named_with_its_line(
    project: Project, code: str, keys: str, tests: dict[str, str], said: str
) -> None:
    project.patch.setitem(METRICS, "boom_rate", METRICS["rejection_rate"])
    del METRICS["boom_rate"]  # and again after the test
    project.write("thresholds/strict.py", code)
    project.write("said.csv", "prompt,completion\nHello,Hi\n")
    project.thresholds(
        'extensions = ["strict.py"]\n[ours]\nfile = "../said.csv"\nexpect = "answer"\n'
        f"rejection_rate = {{ max = 0.5 }}\ninvalid_rate = false\n{keys}"
    )
    found = project.evaluate(candidate_model="replay:said.csv", **KEYWORD)
    assert found.tests == tests
    assert found.result.decision.exit_code == 1
    found.says(said)


def test_nobody_else_can_read_the_store_and_the_run(project: Project) -> None:
    before = os.umask(0o022)
    try:
        found = project.evaluate()
    finally:
        os.umask(before)
    own = project.path / ".refusal-checks"
    folders = (own, own / "runs", found.result.folder)  # nobody gets into those below
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    kept = (own / "store.sqlite", found.result.folder / "summary.json")
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600, 0o600]
