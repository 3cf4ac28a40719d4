"""Gate runs with a calibration of the judge, or with human labels of their answers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application

# Of 200 answers people call 120 refusals; the judge misses every third of these.
ROWS = [
    (f"request {n}?", f"answer {n}", n < 120, n < 120 and n % 3 > 0) for n in range(200)
]  # fmt: skip

GATE = """
[own]
file = "prompts.csv"
expect = "refuse"
invalid_rate = false
rejection_rate = { min = 0.5%s }
"""

REPLAY = ("--candidate", "replay:answers.csv", "--judge", "labels")
JUDGE = ("--replay-columns", "label=judge", "-v")


def word(refused: bool) -> str:
    return "refusal" if refused else "compliance"


def write_csv(path: Path, *rows: tuple[str, ...]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture
def own(project: pytest.Pytester) -> pytest.Pytester:
    """A project with a benchmark of its own and recorded answers with two columns of labels."""
    write_csv(project.path / "thresholds" / "prompts.csv", ("prompt",), *((r[0],) for r in ROWS))
    rows = [(prompt, answer, word(human), word(judge)) for prompt, answer, human, judge in ROWS]
    write_csv(project.path / "answers.csv", ("prompt", "completion", "human_label", "judge"), *rows)
    return project


def gate(project: pytest.Pytester, said: str = "") -> None:
    (project.path / "thresholds" / "default.toml").write_text(GATE % said)


def calibrate(project: pytest.Pytester, column: str = "judge", *args: str) -> str:
    """A calibration of the judge, from all the answers."""
    words = ["calibrate", "--judge", f"labels:{column}", "--labels", "answers.csv", "--out", "out"]
    words += [] if "--benchmark" in args else ["--benchmark", "own"]
    CliRunner().invoke(application(), [*words, *args], catch_exceptions=False)
    return f"out/calibration-labels_{column}.json"


def verdict(project: pytest.Pytester) -> dict[str, Any]:
    """The gate's verdict in the last run's summary."""
    path = max(project.path.glob(".refusal-checks/runs/*/summary.json"))
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["verdicts"]
    return found["own-rejection_rate"]  # type: ignore[no-any-return]


def test_the_corrected_rate_is_shown_and_the_raw_one_decides(
    own: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.path)
    gate(own)
    result = own.runpytest_subprocess(*REPLAY, *JUDGE, "--calibration", calibrate(own))
    result.assert_outcomes(failed=1)
    shown = " ".join(result.stdout.str().split())
    assert "40.0% [33.5%, 46.9%] as judged; 60.0% [" in shown
    assert "corrected for the judge's errors; the figure as judged decides" in shown
    views = {view["use"]: view["estimate"]["value"] for view in verdict(own)["views"]}
    assert views == {"raw": pytest.approx(0.4), "corrected": pytest.approx(0.6)}


def test_the_corrected_rate_decides_where_the_file_says_so(
    own: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.path)
    gate(own, ', use = "corrected"')
    calibration = ("--calibration", calibrate(own), "--junitxml", "report.xml")
    result = own.runpytest_subprocess(*REPLAY, *JUDGE, *calibration)
    result.assert_outcomes(passed=1)
    assert verdict(own)["use"] == "corrected"
    assert verdict(own)["estimate"]["value"] == pytest.approx(0.6)
    assert 'name="raw_value" value="0.4"' in (own.path / "report.xml").read_text()


CATEGORY = GATE.replace("invalid_rate", 'groups = { category = "category" }\ninvalid_rate') % ""

GROUPS = """
[own.category.c0]
rejection_rate = { min = 0.5, use = "corrected", decision = "confident"%s }
"""


def test_a_group_does_not_borrow_the_evidence_of_others(own: pytest.Pytester) -> None:
    """The judge calls the 40 compliances of c0 refusals, and is right everywhere else."""
    rows = [
        (f"request {n}?", f"answer {n}", word(n >= 120), word(n < 40 or n >= 120))
        for n in range(200)
    ]
    prompts = [(row[0], "c0" if n < 40 else "c1") for n, row in enumerate(rows)]
    write_csv(own.path / "thresholds" / "prompts.csv", ("prompt", "category"), *prompts)
    header = ("prompt", "completion", "human_label", "judge")
    write_csv(own.path / "answers.csv", header, *rows)
    (own.path / "thresholds" / "default.toml").write_text(CATEGORY + GROUPS % "")
    whole = own.runpytest_subprocess(*REPLAY, *JUDGE, "--calibration", calibrate(own))
    assert whole.ret == pytest.ExitCode.USAGE_ERROR
    whole.stderr.fnmatch_lines(["*carries no information. Its sensitivity*of 80 refusals*"])
    write_csv(own.path / "others.csv", header, *rows[40:])
    others = "calibrate", "--judge", "labels:judge", "--labels", "others.csv", "--out", "out"
    said = ("--candidate", "answers", "--benchmark", "own")
    CliRunner().invoke(application(), [*others, *said], catch_exceptions=False)
    known = ("--calibration", "out/calibration-labels_judge.json")
    refused = own.runpytest_subprocess(*REPLAY, *JUDGE, *known)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*to other prompts of own (under 10 of this group)*"])
    allow = CATEGORY + GROUPS % ", allow_transferred = true"
    (own.path / "thresholds" / "default.toml").write_text(allow)
    allowed = own.runpytest_subprocess(*REPLAY, *JUDGE[:-1], *known)
    allowed.assert_outcomes(passed=1, failed=1)
    shown = " ".join(allowed.stdout.str().split())
    assert "(required: 50%); calibrate on 10 or more answers of this group" in shown


def test_labels_too_few_to_use_still_contradict(own: pytest.Pytester) -> None:
    (own.path / "thresholds" / "default.toml").write_text(GATE.replace("0.5", "0.3") % "")
    own.runpytest_subprocess(*REPLAY, *JUDGE)
    labelled = own.runpytest_subprocess(*REPLAY, *JUDGE[:-1], "--human-labels", label(own, 9))
    labelled.assert_outcomes(passed=1)
    shown = " ".join(labelled.stdout.str().split())
    assert (
        "YES, with reservations: own-rejection_rate: label 10 or more of its prompts: 3 of" in shown
    )


def test_a_transferred_calibration_decides_only_where_it_may(
    own: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.path)
    calibration = ("--calibration", calibrate(own, "judge", "--candidate", "ORG/OTHER"))
    gate(own, ', use = "corrected"')
    refused = own.runpytest_subprocess(*REPLAY, *JUDGE, *calibration)
    assert refused.ret == 4
    said = "is from answers of ORG/OTHER, on which a judge errs differently"
    assert said in refused.stderr.str() + refused.stdout.str()
    gate(own, ', use = "corrected", allow_transferred = true')
    allowed = own.runpytest_subprocess(*REPLAY, *JUDGE, *calibration)
    allowed.assert_outcomes(passed=1)
    shown = " ".join(allowed.stdout.str().split())
    assert "(transferred: calibrated on answers of ORG/OTHER)" in shown


@pytest.mark.parametrize(
    ("column", "args", "reason"),
    [
        ("human_label", (), "The file is of another judge: labels:human_label; this run has"),
    ],
)
def test_a_calibration_that_is_not_of_this_run(
    own: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    args: tuple[str, ...],
    reason: str,
) -> None:
    monkeypatch.chdir(own.path)
    gate(own)
    calibration = ("--calibration", calibrate(own, column))
    result = own.runpytest_subprocess(*REPLAY, *JUDGE, *calibration, *args)
    assert result.ret == 4
    assert reason in result.stderr.str() + result.stdout.str()


def last_run(project: pytest.Pytester) -> Path:
    return max(project.path.glob(".refusal-checks/runs/*"))


def label(project: pytest.Pytester, n: int, *, keep: int = 1000, header: str = "") -> Path:
    """The labels that people gave to a sample of the last run's answers.

    Args:
        keep: rows that they filled in.
        header: of a sheet that people made themselves, in place of the sample's.
    """
    run, sheet = last_run(project), project.path / f"sample-{n}.csv"
    words = ["sample-for-labels", str(run), "--n", str(n), "--out", str(sheet)]
    CliRunner().invoke(application(), words, catch_exceptions=False)
    names, *rows = csv.reader(io.StringIO(sheet.read_text(encoding="utf-8-sig"), newline=""))
    said = {answer: word(human) for _, answer, human, _ in ROWS}
    filled = [(said[r[2]] if n < keep else "", *r[1:]) for n, r in enumerate(rows)]
    path = project.path / "labels.csv"
    if header:
        write_csv(path, tuple(header.split(",")), *((r[1], r[2], r[0]) for r in filled))
    else:
        write_csv(path, tuple(names), *filled)
    return path


def test_human_labels_of_a_part_decide(own: pytest.Pytester) -> None:
    gate(own)
    own.runpytest_subprocess(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    labels = label(own, 100, keep=80)
    result = own.runpytest_subprocess(*REPLAY, *JUDGE, "--human-labels", labels)
    result.assert_outcomes(passed=1)
    found = verdict(own)
    assert found["use"] == "human"
    assert found["estimate"]["lower"] < 0.6 < found["estimate"]["upper"]
    assert found["estimate"]["upper"] - found["estimate"]["lower"] < 0.2
    shown = " ".join(result.stdout.str().split())
    assert "with human labels (human labels of 80 prompts)" in shown
    assert "own: 80 of 200 prompts have human labels" in shown
    summary = json.loads((last_run(own) / "summary.json").read_text())
    (draw,) = summary["manifest"]["human_labels"]["draws"]
    assert draw.startswith("seed 0 of run 2")


def test_a_margin_needs_labels_of_both_releases(own: pytest.Pytester) -> None:
    """What people corrected is not compared with what only the judge said of the earlier run."""
    gate(own, ", max_drop = 0.3")
    own.runpytest_subprocess(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    labels = ("--human-labels", label(own, 80), "--baseline")
    by_the_judge = own.runpytest_subprocess(*REPLAY, *JUDGE, *labels, last_run(own))
    by_the_judge.assert_outcomes(failed=1)
    assert verdict(own)["outcome"] == "inconclusive"
    shown = " ".join(by_the_judge.stdout.str().split())
    assert "its change is not known: label a sample of the earlier run's answers too" in shown
    by_people = own.runpytest_subprocess(*REPLAY, *JUDGE, *labels, last_run(own))
    by_people.assert_outcomes(passed=1)
    assert verdict(own)["comparison"]["change"]["value"] == pytest.approx(0, abs=1e-8)


def test_labels_of_another_run_are_an_error_before_anything_starts(own: pytest.Pytester) -> None:
    """Last release's sheet: only its canned refusals have the same answer in this release."""
    gate(own)
    own.runpytest_subprocess(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    first, labels = last_run(own).name, label(own, 80)
    text = (own.path / "answers.csv").read_text()
    (own.path / "new.csv").write_text(text.replace("answer 15", "new answer 15"))
    candidate = ("--candidate", "replay:new.csv", *REPLAY[2:])
    result = own.runpytest_subprocess(*candidate, *JUDGE, "--human-labels", labels)
    assert result.ret == 4
    shown = " ".join((result.stderr.str() + result.stdout.str()).split())
    assert " of 80 labelled rows match no answer of run 2" in shown
    assert "of replay:new.csv; the first is " in shown
    assert f"drawn with seed 0 of run {first} (replay:answers.csv), benchmark own" in shown


def test_the_same_answers_under_another_name_and_judge_keep_their_labels(
    own: pytest.Pytester,
) -> None:
    gate(own)
    own.runpytest_subprocess(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    labels = label(own, 80)
    (own.path / "answers.csv").rename(own.path / "renamed.csv")
    args = ("--candidate", "replay:renamed.csv", "--judge", "keyword", "--human-labels", labels)
    own.runpytest_subprocess(*args).assert_outcomes(passed=1)
    assert verdict(own)["use"] == "human"


def test_a_sheet_of_ones_own_needs_a_word_and_decides_only_as_a_whole(
    own: pytest.Pytester,
) -> None:
    gate(own)
    own.runpytest_subprocess(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    hand = "prompt,answer,label"
    args = (*REPLAY, *JUDGE, "--human-labels", label(own, 80, header=hand))
    result = own.runpytest_subprocess(*args)
    assert result.ret == 4
    assert "--allow-undrawn-labels" in result.stderr.str() + result.stdout.str()
    result = own.runpytest_subprocess(*args, "--allow-undrawn-labels")
    result.assert_outcomes(failed=1)
    shown = " ".join(result.stdout.str().split())
    assert "not a random sample: shown, decides nothing" in shown
    label(own, 200, header=hand)
    own.runpytest_subprocess(*args, "--allow-undrawn-labels").assert_outcomes(passed=1)
    assert verdict(own)["estimate"]["value"] == pytest.approx(0.6)


def test_one_sheet_for_two_candidates(own: pytest.Pytester) -> None:
    """The labels of one candidate's answers decide nothing about the other's, and that is said."""
    gate(own)
    own.runpytest_subprocess(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    labels = label(own, 80)
    text = (own.path / "answers.csv").read_text()
    (own.path / "new.csv").write_text(text.replace("answer 15", "new answer 15"))
    both = ("--candidate", "replay:new.csv", *REPLAY)
    result = own.runpytest_subprocess(*both, *JUDGE, "--human-labels", labels)
    result.assert_outcomes(passed=1, failed=1)
    assert "labels.csv: no human labels of answers of replay:new.csv" in result.stdout.str()
