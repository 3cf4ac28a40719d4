"""``refusal-checks calibrate``: XSTest's files, tables of other shapes, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import DataError, ModelError, UserError
from refusal_checks.judges.trust import calibration
from refusal_checks.reports.markdown import escape
from tests.fake_server import FakeServer

Write = Callable[[str, str], Path]


def calibrate(*args: str | Path) -> str:
    """What the command printed; raises what it raised."""
    words = ["calibrate", "--fresh", *map(str, args)]
    return CliRunner().invoke(application(), words, catch_exceptions=False).output


def xstest(mirror: Path, *models: str) -> list[str | Path]:
    """The options that name the recorded answers of these models."""
    folder = mirror / "xstest"
    return [word for name in models for word in ("--labels", folder / f"completions_{name}.csv")]


def figures(out: Path) -> list[dict[str, Any]]:
    """What was written for tools."""
    found: list[dict[str, Any]] = json.loads((out / "judge-quality.json").read_text())
    return found


def test_gpt4s_recorded_labels_of_xstest(mirror: Path, tmp_path: Path) -> None:
    models = ("gpt4", "llama2orig", "mistralinstruct")
    calibrate("--judge", "labels:gpt4_label", *xstest(mirror, *models), "--out", tmp_path)
    (judge,) = figures(tmp_path)
    names = ("accuracy", "sensitivity", "specificity")
    found = {
        candidate: [
            figure["n"],
            *(round(figure[name]["value"], 3) for name in names),
            round(figure["kappa"], 3),
            figure["invalid"],
        ]
        for candidate, figure in judge["by_candidate"].items()
    }
    assert found == {
        "completions_gpt4": [450, 0.938, 0.873, 1.000, 0.875, 0],
        "completions_llama2orig": [450, 0.793, 0.739, 0.980, 0.548, 0],
        "completions_mistralinstruct": [439, 0.774, 0.211, 0.893, 0.116, 11],
    }
    assert len(judge["by_type"]) == 18
    assert judge["overall"]["n"] == 1339
    assert len(judge["disagreements"]) == sum(
        cell["answers"] for cell in judge["overall"]["confusion"] if cell["human"] != cell["judge"]
    )


def test_judges_side_by_side_and_their_calibrations(mirror: Path, tmp_path: Path) -> None:
    judges = ("--judge", "labels:gpt4_label", "--judge", "keyword")
    page = calibrate(*judges, *xstest(mirror, "gpt4"), "--candidate", "gpt-4", "--out", tmp_path)
    assert "| labels:gpt4\\_label | 450 | 0.938 | 0.875 |" in page
    assert "| keyword | 450 | 0.947 | 0.893 |" in page
    found = calibration.read(tmp_path / "calibration-keyword.json")
    assert found.candidates == ("gpt-4",)
    assert (found.refusals, found.compliances) == (220, 230)
    assert found.judge.prompt_sha256
    assert (tmp_path / "judge-quality.md").read_text() in page


def test_partial_refusals_as_their_own_class(mirror: Path, tmp_path: Path) -> None:
    options = ("--partial", "own", "--out", tmp_path)
    said = calibrate("--judge", "labels:gpt4_label", *xstest(mirror, "llama2orig"), *options)
    assert "| partial_refusal |" in said
    assert "no calibration of labels:gpt4_label: a calibration needs two classes" in said
    (judge,) = figures(tmp_path)
    assert judge["overall"]["sensitivity"]["n"] == 294
    assert judge["overall"]["partial_called_refusal"]["n"] == 55


def test_partial_refusals_as_compliance(mirror: Path, tmp_path: Path) -> None:
    options = ("--partial", "compliance", "--out", tmp_path)
    calibrate("--judge", "labels:gpt4_label", *xstest(mirror, "llama2orig"), *options)
    (judge,) = figures(tmp_path)
    assert judge["overall"]["specificity"]["n"] == 101 + 55


ROWS = """question,reply,human,verdict
a?,I can't help with that.,refusal,refusal
b?,Sure: do this.,compliance,compliance
c?,"<script>alert(1)</script> | [x](http://y.z) ![i](www.a.b) \x1b[31m@all",refusal,Compliance
d?,No.,,refusal
e?,Yes.,compliance,maybe
"""
COLUMNS = ("--columns", "prompt=question,completion=reply,label=human")


def test_named_columns_unlabelled_rows_and_invalid_verdicts(write: Write) -> None:
    said = calibrate("--judge", "labels:verdict", "--labels", write("rows.csv", ROWS), *COLUMNS)
    assert "4 labelled answers of rows; 1 rows without a label skipped" in said
    assert "| labels:verdict | 3 | 0.667 |" in said
    assert "Disagreements, 1 of 1:" in said
    assert "<script>" not in said
    assert "[x](" not in said
    assert "\x1b" not in said
    assert "http:\\//y.z" in said


def test_escaped_text_is_one_line_without_markup() -> None:
    text = escape("# a\n*b* `c` <d> |e| & f_g \\ @h https://i www.j")
    assert text == ("\\# a \\*b\\* \\`c\\` \\<d\\> \\|e\\| \\& f\\_g \\\\ \\@h https:\\//i www\\.j")


def test_degrees_and_ratings(write: Write) -> None:
    rows = "\n".join(
        json.dumps({"prompt": "p", "answer": f"a{n}", "label": human, "judge": judge})
        for n, (human, judge) in enumerate([(0, 0), (1, 1), (2, 3), (3, "2"), (3, 3), (1, "?")])
    )
    options = ("--judge", "labels:judge", "--labels", write("rows.jsonl", rows))
    said = calibrate(*options, "--scale", "degree")
    assert "| labels:judge | 5 | 0.667 | 0.763 | 0.853 | 0.600 | 1 |" in said
    with pytest.raises(DataError, match="unknown label '0'; write 1_full_compliance"):
        calibrate(*options)


@pytest.mark.parametrize(
    ("args", "error", "reason"),
    [
        (("--judge", "labels"), ModelError, "name the column: --judge labels:COLUMN"),
        (("--judge", "labels:verdicts"), DataError, "did you mean"),
        (("--judge", "keyword", "--candidate", "a", "--candidate", "b"), DataError, "2 times"),
        (("--judge", "nothing"), ModelError, "no such folder"),
    ],
)
def test_wrong_options(
    write: Write, args: tuple[str, ...], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        calibrate(*args, "--labels", write("rows.csv", ROWS), *COLUMNS)


@pytest.mark.parametrize(
    ("rows", "columns", "reason"),
    [
        ("prompt,answer\na,b\n", "", "no column human_label or final_label or label"),
        ("prompt,answer,label\na,b,\n", "", "column label has no label"),
        ("prompt,answer,label\na,b,refused\n", "", "unknown label 'refused'"),
        ("prompt,answer,label\na,b,refusal\n", "labl=x", "did you mean"),
        ("prompt,answer,label\na,b,refusal\n", "label", "write FIELD=COLUMN"),
        (
            "prompt,answer,label\na,b,refusal\n",
            "label=x",
            'no column "x". Known: answer, label, prompt',
        ),
    ],
)
def test_wrong_label_files(write: Write, rows: str, columns: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        calibrate("--judge", "keyword", "--labels", write("rows.csv", rows), "--columns", columns)


def test_two_files_of_one_candidate(write: Write) -> None:
    files = [write(name, "prompt,answer,label\na,b,refusal\n") for name in ("a.csv", "b.csv")]
    words = [word for file in files for word in ("--labels", file)]
    with pytest.raises(DataError, match="both are of candidate m"):
        calibrate("--judge", "keyword", *words, "--candidate", "m", "--candidate", "m")


def test_a_judge_s_server_is_asked_no_faster_than_allowed(write: Write) -> None:
    rows = (f"what {number}?,I cannot,refusal\n" for number in range(6))
    labels = write("a.csv", "prompt,completion,label\n" + "".join(rows))
    with FakeServer(delay=0.01) as server:
        args = ("--judge", server.url, "--labels", labels, "--judge-concurrency", "1")
        calibrate(*args, "--judge-rpm", "6000")
        assert (server.most_at_once, len(server.requests)) == (1, 6)
        with pytest.raises(UserError, match=r"judge_rpm = -1\.0"):
            calibrate(*args, "--judge-rpm", "-1")
