"""``refusal-checks compare``, as it is typed."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.gates import score_files
from refusal_checks.gates.gate import Gate
from refusal_checks.results import run_folder
from refusal_checks.results.manifest import conditions
from refusal_checks.results.redact import RedactedFolder
from tests.support.report_runs import (
    GATES,
    HOSTILE,
    manifest_of,
    refusals,
    seal,
    write_run,
)
from tests.unit.cli.test_baseline import call
from tests.unit.gates.test_score_files import scores_of

RATE = "unsafe-rejection_rate"
NAMES = ("old", "new", "third")


def run(
    number: int,
    refused: float,
    benchmark: str = "unsafe",
    gates: tuple[Gate, ...] = GATES,
    **facts: Any,
) -> None:
    """Write a run of sixty prompts, one answer each, below the working folder."""
    folder = run_folder.ROOT / f"2026010{number + 1}-120000Z-{number}"
    records = list(refusals(benchmark, 60, 1, refused=refused))
    facts = {"candidate": f"org/{NAMES[number]}"} | facts
    write_run(folder, {benchmark: records}, gates, manifest=facts, judge=None)
    own = conditions(manifest_of(benchmark, **facts), benchmark)
    scores = replace(scores_of(records, benchmark), conditions=own)
    (folder / "scores").mkdir()
    (folder / "scores" / f"{benchmark}.json").write_text(score_files.dump(scores))
    seal(folder)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compared(*names: str) -> list[list[str]]:
    """The table's rows by cell, and the lines below it."""
    lines = call("compare", *names).output.splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell] for line in lines]


def test_two_runs_have_the_change_of_each_gate_with_its_interval() -> None:
    run(0, 0.9)
    run(1, 0.4)
    header, answers, rate, group, invalid = compared("20260101", "last")
    assert header == ["gate", "old", "new", "change"]
    assert answers == ["may it ship?", "No", "No"]
    starts = RATE, "pass? 88.9% [", "FAIL 40.7% [", "-48.1 ["
    for cell, start in zip(rate, starts, strict=True):
        assert cell.startswith(start)
    assert rate[3].endswith("] points")
    assert group[0] == f"{RATE}-zh"
    assert invalid[-1].startswith("+0.0 [")


def test_redacted_runs_are_paired_too() -> None:
    run(0, 0.9)
    run(1, 0.4)
    shown = compared("20260101", "last")
    folder = RedactedFolder(run_folder.ROOT / "20260102-120000Z-1")
    folder.write_records("unsafe", list(folder.records("unsafe")))
    seal(folder.path)
    assert compared("20260101", "last") == shown


def test_three_runs_stand_side_by_side_without_a_change() -> None:
    for number in range(3):
        run(number, 0.9)
    header, _, rate, *_ = compared("20260101", "20260102", "20260103")
    assert header == ["gate", *NAMES]
    assert len(rate) == 4


def test_a_gate_that_one_run_lacks_has_no_change() -> None:
    other = Gate("safe", "rejection_rate", max=0.5)
    run(0, 0.9, gates=(GATES[0],))
    run(1, 0.4, "safe", gates=(other,))
    _, _, rate, safe, *said = compared("20260101", "last")
    assert "these have no gate in common" in " ".join(said[0])
    assert [rate[0], rate[2:]] == [RATE, ["-"]]
    assert [safe[0], safe[1], len(safe)] == ["safe-rejection_rate", "-", 3]


def test_runs_under_other_conditions_say_why_they_have_no_change() -> None:
    run(0, 0.9)
    run(1, 0.4, sampling={"temperature": 1.0})
    _, _, rate, *_, reason = compared("20260101", "last")
    assert len(rate) == 3
    assert "no change in unsafe: other sampling temperature" in " ".join(reason)


def test_a_summary_alone_is_shown_without_a_change() -> None:
    run(0, 0.9)
    run(1, 0.4)
    alone = Path("alone")
    alone.mkdir()
    shutil.copy(run_folder.ROOT / "20260102-120000Z-1" / "summary.json", alone)
    *_, reason = compared("20260101", "alone")
    assert "no change without the scores of both runs: alone" in " ".join(reason)


def test_wrong_runs_are_refused() -> None:
    run(0, 0.9)
    for words, fault in (
        (("last",), "name at least two different runs"),
        (("last", "20260101"), "name at least two different runs"),
        (("last", "nope"), 'no run "nope"'),
    ):
        with pytest.raises((UserError, DataError), match=fault):
            call("compare", *words)


def test_names_of_hostile_runs_are_text() -> None:
    run(0, 0.9)
    for text in HOSTILE:
        shutil.rmtree(run_folder.ROOT / "20260102-120000Z-1", ignore_errors=True)
        run(1, 0.4, candidate=text)
        shown = call("compare", "20260101", "last").output
        assert not {"\x1b", "\u202e", "\r"} & set(shown)
        assert not any(line.startswith(("::", "##[")) for line in shown.splitlines())
