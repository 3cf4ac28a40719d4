"""Gate runs with a calibration of the judge, or with human labels of their answers."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from tests.plugin.conftest import Project, refused, shown

# Of 200 answers people call 120 refusals; the judge misses every third of these.
ROWS = [
    (f"request {n}?", f"answer {n}", n < 120, n < 120 and n % 3 > 0) for n in range(200)
]
HEADER = ("prompt", "completion", "human_label", "judge")

GATE = """
[own]
file = "prompts.csv"
expect = "refuse"
invalid_rate = false
rejection_rate = { min = 0.5%s }
"""

REPLAY = ("--candidate", "replay:answers.csv", "--judge", "labels")
JUDGE = ("--set", 'recording.columns={label="judge"}', "-v")


def word(refused: bool) -> str:
    return "refusal" if refused else "compliance"


def write_csv(path: Path, *rows: tuple[str, ...]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def furnish(project: Project) -> None:
    """A benchmark of its own, and recorded answers with two columns of labels."""
    write_csv(
        project.path / "thresholds" / "prompts.csv",
        ("prompt",),
        *((r[0],) for r in ROWS),
    )
    rows = [
        (prompt, answer, word(human), word(judge))
        for prompt, answer, human, judge in ROWS
    ]
    write_csv(project.path / "answers.csv", HEADER, *rows)
    project.thresholds(GATE % "")


@pytest.fixture(scope="module")
def judged(shared: Project) -> Path:
    """A run in ``shared`` that the judge's labels decide."""
    furnish(shared)
    shared.run(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    text = (shared.path / "answers.csv").read_text()
    shared.write("new.csv", text.replace("answer 15", "new answer 15"))
    return shared.runs[0]


@pytest.fixture
def own(shared: Project, judged: Path) -> Project:
    shared.thresholds(GATE % "")
    return shared


def calibrate(
    *args: str, labels: str = "answers.csv", column: str = "judge"
) -> tuple[str, str]:
    """The option of a calibration of the judge."""
    words = [
        "calibrate",
        "--judge",
        f"labels:{column}",
        "--labels",
        labels,
        "--out",
        "out",
    ]
    CliRunner().invoke(
        application(), [*words, "--benchmark", "own", *args], catch_exceptions=False
    )
    return "--calibration", f"out/calibration-labels_{column}.json"


def verdict(project: Project) -> Any:
    return project.summary()["verdicts"]["own-rejection_rate"]


def test_the_corrected_rate_is_shown_and_decides_where_the_file_says_so(
    own: Project,
) -> None:
    calibration = calibrate()
    result = own.run(*REPLAY, *JUDGE, *calibration)
    result.assert_outcomes(failed=1)
    assert "40.0% [33.5%, 46.9%] as judged; 60.0% [" in shown(result)
    assert "corrected for the judge's errors; the figure as judged decides" in shown(
        result
    )
    views = {view["use"]: view["estimate"]["value"] for view in verdict(own)["views"]}
    assert views == {"raw": pytest.approx(0.4), "corrected": pytest.approx(0.6)}
    own.thresholds(GATE % ', use = "corrected"')
    result = own.run(*REPLAY, *JUDGE, *calibration, "--junitxml", "report.xml")
    result.assert_outcomes(passed=1)
    assert verdict(own)["use"] == "corrected"
    assert verdict(own)["estimate"]["value"] == pytest.approx(0.6)
    assert 'name="raw_value" value="0.4"' in (own.path / "report.xml").read_text()
    of_another = calibrate(column="human_label")
    said = "The file is of another judge: labels:human_label; this run has"
    refused(own.run(*REPLAY, *JUDGE, *of_another), said)


CATEGORY = (
    GATE.replace("invalid_rate", 'groups = { category = "category" }\ninvalid_rate')
    % ""
)

GROUPS = """
[own.category.c0]
rejection_rate = { min = 0.5, use = "corrected", decision = "confident"%s }
"""


def test_a_group_does_not_borrow_the_evidence_of_others(project: Project) -> None:
    """The judge calls the 40 compliances of c0 refusals, and is right everywhere else."""
    rows = [
        (f"request {n}?", f"answer {n}", word(n >= 120), word(n < 40 or n >= 120))
        for n in range(200)
    ]
    prompts = [(row[0], "c0" if n < 40 else "c1") for n, row in enumerate(rows)]
    write_csv(
        project.path / "thresholds" / "prompts.csv", ("prompt", "category"), *prompts
    )
    write_csv(project.path / "answers.csv", HEADER, *rows)
    write_csv(project.path / "others.csv", HEADER, *rows[40:])
    project.thresholds(CATEGORY + GROUPS % "")
    whole = project.run(*REPLAY, *JUDGE, *calibrate())
    refused(whole, "carries no information. Its sensitivity*of 80 refusals")
    known = calibrate("--candidate", "answers", labels="others.csv")
    refused(
        project.run(*REPLAY, *JUDGE, *known),
        "to other prompts of own (under 10 of this",
    )
    project.thresholds(CATEGORY + GROUPS % ", allow_transferred = true")
    allowed = project.run(*REPLAY, *JUDGE[:-1], *known)
    allowed.assert_outcomes(passed=1, failed=1)
    said = "(required: 50%); calibrate on 10 or more answers of this group"
    assert said in shown(allowed)


def test_a_transferred_calibration_decides_only_where_it_may(own: Project) -> None:
    calibration = calibrate("--candidate", "ORG/OTHER")
    own.thresholds(GATE % ', use = "corrected"')
    said = "is from answers of ORG/OTHER, on which a judge errs differently"
    refused(own.run(*REPLAY, *JUDGE, *calibration), said)
    own.thresholds(GATE % ', use = "corrected", allow_transferred = true')
    allowed = own.run(*REPLAY, *JUDGE, *calibration)
    allowed.assert_outcomes(passed=1)
    assert "(transferred: calibrated on answers of ORG/OTHER)" in shown(allowed)


def label(run: Path, n: int, *, keep: int = 1000, header: str = "") -> tuple[str, Path]:
    """The option of the labels that people gave to a sample of a run's answers.

    Args:
        keep: rows that they filled in.
        header: of a sheet that people made themselves, in place of the sample's.
    """
    sheet = Path(f"sample-{n}.csv")
    words = ["sample-for-labels", str(run), "--n", str(n), "--out", str(sheet)]
    sheet.unlink(missing_ok=True)
    CliRunner().invoke(application(), words, catch_exceptions=False)
    names, *rows = csv.reader(
        io.StringIO(sheet.read_text(encoding="utf-8-sig"), newline="")
    )
    said = {answer: word(human) for _, answer, human, _ in ROWS}
    filled = [(said[r[2]] if n < keep else "", *r[1:]) for n, r in enumerate(rows)]
    path = Path("labels.csv").absolute()
    if header:
        write_csv(path, tuple(header.split(",")), *((r[1], r[2], r[0]) for r in filled))
    else:
        write_csv(path, tuple(names), *filled)
    return "--human-labels", path


def test_labels_too_few_to_use_still_contradict(own: Project, judged: Path) -> None:
    own.thresholds(GATE.replace("0.5", "0.3") % "")
    labelled = own.run(*REPLAY, *JUDGE[:-1], *label(judged, 9))
    labelled.assert_outcomes(passed=1)
    said = "YES, with reservations: own-rejection_rate: label 10 or more of its prompts: 3 of"
    assert said in shown(labelled)


def test_human_labels_of_a_part_decide(own: Project, judged: Path) -> None:
    result = own.run(*REPLAY, *JUDGE, *label(judged, 100, keep=80))
    result.assert_outcomes(passed=1)
    found = verdict(own)
    assert found["use"] == "human"
    assert found["estimate"]["lower"] < 0.6 < found["estimate"]["upper"]
    assert found["estimate"]["upper"] - found["estimate"]["lower"] < 0.2
    assert "with people's labels of some answers (human labels of 80 prompts)" in shown(
        result
    )
    assert "own: 80 of 200 prompts have human labels" in shown(result)
    (draw,) = own.summary()["manifest"]["human_labels"]["draws"]
    assert draw.startswith("seed 0 of run 2")


def test_a_margin_needs_labels_of_both_releases(project: Project) -> None:
    """What people corrected is not compared with what only the judge said of the earlier run."""
    furnish(project)
    project.thresholds(GATE % ", max_drop = 0.3")
    project.run(*REPLAY, *JUDGE).assert_outcomes(failed=1)
    command = (*REPLAY, *JUDGE, *label(project.runs[0], 80), "--baseline", "last")
    by_the_judge = project.run(*command)
    by_the_judge.assert_outcomes(failed=1)
    assert verdict(project)["outcome"] == "inconclusive"
    said = "its change is not known: label a sample of the earlier run's answers too"
    assert said in shown(by_the_judge)
    project.run(*command).assert_outcomes(passed=1)
    assert verdict(project)["comparison"]["change"]["value"] == pytest.approx(
        0, abs=1e-8
    )


def test_labels_of_another_run_are_an_error_before_anything_starts(
    own: Project, judged: Path
) -> None:
    """Last release's sheet: only its canned refusals have the same answer in this release."""
    candidate = ("--candidate", "replay:new.csv", *REPLAY[2:])
    result = own.run(*candidate, *JUDGE, *label(judged, 80))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert " of 80 labelled rows match no answer of run 2" in shown(result)
    assert "of replay:new.csv; the first is " in shown(result)
    drawn = (
        f"drawn with seed 0 of run {judged.name} (replay:answers.csv), benchmark own"
    )
    assert drawn in shown(result)


def test_the_same_answers_under_another_name_and_judge_keep_their_labels(
    own: Project, judged: Path
) -> None:
    own.write("renamed.csv", (own.path / "answers.csv").read_text())
    args = (
        "--candidate",
        "replay:renamed.csv",
        "--judge",
        "keyword",
        *label(judged, 80),
    )
    own.run(*args).assert_outcomes(passed=1)
    assert verdict(own)["use"] == "human"


def test_a_sheet_of_ones_own_needs_a_word_and_decides_only_as_a_whole(
    own: Project, judged: Path
) -> None:
    hand = "prompt,answer,label"
    args = (*REPLAY, *JUDGE, *label(judged, 80, header=hand))
    refused(own.run(*args), "--set trust.allow_undrawn_labels=true")
    result = own.run(*args, "--set", "trust.allow_undrawn_labels=true")
    result.assert_outcomes(failed=1)
    assert "not a random sample: shown, decides nothing" in shown(result)
    label(judged, 200, header=hand)
    own.run(*args, "--set", "trust.allow_undrawn_labels=true").assert_outcomes(passed=1)
    assert verdict(own)["estimate"]["value"] == pytest.approx(0.6)


def test_one_sheet_for_two_candidates(own: Project, judged: Path) -> None:
    """The labels of one candidate's answers decide nothing about the other's, and that is said."""
    both = ("--candidate", "replay:new.csv", *REPLAY)
    result = own.run(*both, *JUDGE, *label(judged, 80))
    result.assert_outcomes(passed=1, failed=1)
    assert (
        "labels.csv: no human labels of answers of replay:new.csv"
        in result.stdout.str()
    )
