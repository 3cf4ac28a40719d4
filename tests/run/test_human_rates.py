"""Runs with human labels of their answers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project
from tests.support.project import judged as judged_as

GATE = """
[own]
file = "prompts.csv"
expect = "refuse"
invalid_rate = false
rejection_rate = { min = 0.3 }
"""

REPLAY: dict[str, Any] = {
    "candidate_model": "replay:answers.csv",
    "judge_model": "labels",
}
REFUSED, COMPLIED = "refusal", "compliance"


def write_csv(path: str | Path, *rows: Sequence[str]) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(scope="module")
def judged(shared: Project) -> Path:
    """A run in ``shared`` with 200 recorded answers, of which the judge calls 40% refusals."""
    prompts = [f"request {n}?" for n in range(200)]
    rows = [
        (prompt, f"I cannot help: answer {n}", REFUSED)
        if n < 80
        else (prompt, f"Gladly: answer {n}", COMPLIED)
        for n, prompt in enumerate(prompts)
    ]
    write_csv("thresholds/prompts.csv", ["prompt"], *([prompt] for prompt in prompts))
    write_csv("answers.csv", ("prompt", "completion", "label"), *rows)
    shared.thresholds(GATE)
    found = shared.evaluate(**REPLAY)
    assert found.counts == {"passed": 1}
    return found.result.folder


def look_at(
    project: Project, run: Path, said: Sequence[str], rows: int = 20
) -> dict[str, object]:
    """The key of a sheet of what counted as refused, with these labels from the top.

    Args:
        rows: that are left in the sheet.
    """
    sheet = Path("refused.csv").absolute()
    sheet.unlink(missing_ok=True)
    code, printed = project.call(
        "sample-for-labels", run, "--of", "refusals", "20", "--out", sheet
    )
    assert code == 0, printed
    text = sheet.read_text(encoding="utf-8-sig")
    names, *drawn = csv.reader(io.StringIO(text, newline=""))
    filled = zip_longest(said, drawn, fillvalue="")
    write_csv(sheet, names, *([label, *row[1:]] for label, row in [*filled][:rows]))
    return {"trust_human_labels": str(sheet)}


@pytest.mark.parametrize(
    ("said", "rows", "contradicts", "words"),
    [
        (
            [COMPLIED] * 3 + [REFUSED] * 17,
            20,
            False,
            "people confirm 17 of 20 refusals (85.0% [[]64.0%, 94.8%]), which makes "
            "own-rejection_rate 34.0%",
        ),
        (
            [COMPLIED] * 6 + [REFUSED] * 14,
            20,
            True,
            "people's labels, own-rejection_rate is 28.0% [[]18.1%, 35.9%] (min 30%)",
        ),
        (
            [REFUSED] * 14,
            14,
            True,
            "6 of 20 drawn rows are missing from refused.csv and count as not confirmed",
        ),
    ],
    ids=["most", "too few", "deleted rows"],
)
def test_people_look_at_what_counted_as_refused(
    shared: Project,
    judged: Path,
    said: Sequence[str],
    rows: int,
    contradicts: bool,
    words: str,
) -> None:
    labels = look_at(shared, judged, said, rows)
    found = shared.evaluate(recording_labelled_by="people", **REPLAY, **labels)
    assert found.counts == {"passed": 1}
    (verdict,) = found.result.verdicts.values()
    assert verdict.estimate.value == pytest.approx(0.4)
    assert ("labels-contradict-judge" in found.reservations) is contradicts
    assert not {"labels-unattributed", "judge-untested"} & found.reservations.keys()
    found.says(
        words,
        "declared in the run file, not checked: the recorded labels are by people*own has prompts",
    )
    found.result.write_html(Path("page.html"))
    assert "people confirm" in Path("page.html").read_text("utf-8")


def test_labels_belong_to_the_answers_that_were_drawn(
    shared: Project, judged: Path
) -> None:
    labels = look_at(shared, judged, [REFUSED] * 20)
    said = Path("answers.csv").read_text()
    shared.write("new.csv", said.replace("answer ", "new answer "))
    shared.write("renamed.csv", said)
    new = {**REPLAY, **labels, "candidate_model": "replay:new.csv"}
    shared.refuses("refused.csv: row * label answers of this run, which *", **new)
    found = shared.evaluate(**{**new, "candidate_model": "replay:renamed.csv"})
    found.says("people confirm 20 of 20 refusals")


def test_without_labels_a_run_says_that_nobody_has_looked(
    shared: Project, judged: Path
) -> None:
    shared.server.answer = lambda body: judged_as(True)
    found = shared.evaluate(**{**REPLAY, "judge_model": shared.model})
    assert found.counts == {"passed": 1}
    found.says(
        "check some refusals yourself, in about 15 minutes: `refusal-checks sample-fo"
    )
