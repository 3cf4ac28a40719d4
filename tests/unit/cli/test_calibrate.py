"""``refusal-checks calibrate``: XSTest's files, tables of other shapes, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.judges.trust import calibration
from refusal_checks.reports.markdown import escape
from tests import hosted
from tests.fake_server import FakeServer
from tests.unit.cli.test_baseline import call
from tests.unit.conftest import Write


def calibrate(*args: str | Path) -> str:
    """What the command printed; raises what it raised."""
    return call("calibrate", "--set", "store.fresh=true", *args).output


def xstest(mirror: Path, *models: str) -> list[str | Path]:
    """The options that name the recorded answers of these models."""
    folder = mirror / "xstest"
    return [
        word
        for name in models
        for word in ("--labels", folder / f"completions_{name}.csv")
    ]


def figures(out: Path) -> list[dict[str, Any]]:
    """What was written for tools."""
    found: list[dict[str, Any]] = json.loads((out / "judge-quality.json").read_text())
    return found


def test_gpt4s_recorded_labels_of_xstest(mirror: Path, tmp_path: Path) -> None:
    models = ("gpt4", "llama2orig", "mistralinstruct")
    said = calibrate(
        "--judge", "labels:gpt4_label", *xstest(mirror, *models), "--out", tmp_path
    )
    assert (
        "- specificity 94.1% \\[92.1%, 95.6%] reaches the 90% of \\[judge.check]"
        in said
    )
    assert (
        "- sensitivity 72.2% \\[68.7%, 75.6%] MISSES the 90% of \\[judge.check]" in said
    )
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
        cell["answers"]
        for cell in judge["overall"]["confusion"]
        if cell["human"] != cell["judge"]
    )


def test_judges_side_by_side_and_their_calibrations(
    mirror: Path, tmp_path: Path
) -> None:
    judges = ("--judge", "labels:gpt4_label", "--judge", "keyword")
    page = calibrate(
        *judges, *xstest(mirror, "gpt4"), "--candidate", "gpt-4", "--out", tmp_path
    )
    assert "| labels:gpt4\\_label | 450 | 0.938 | 0.875 |" in page
    assert "| keyword | 450 | 0.947 | 0.893 |" in page
    found = calibration.read(tmp_path / "calibration-keyword.json")
    assert found.candidates == ("gpt-4",)
    assert (found.refusals, found.compliances) == (220, 230)
    assert found.judge.prompt_sha256
    assert (tmp_path / "judge-quality.md").read_text() in page


def test_partial_refusals_as_their_own_class_or_as_compliance(
    mirror: Path, tmp_path: Path
) -> None:
    args = (
        "--judge",
        "labels:gpt4_label",
        *xstest(mirror, "llama2orig"),
        "--out",
        tmp_path,
    )
    said = calibrate(*args, "--set", "judge.partial=own")
    assert "| partial_refusal |" in said
    # In the calibration, they count against the model: 1 of an unsafe prompt, and 54 of safe ones.
    counted = json.loads((tmp_path / "calibration-labels_gpt4_label.json").read_text())
    assert counted["partial"] == "own"
    assert (counted["refusals"], counted["compliances"]) == (294 + 54, 101 + 1)
    (judge,) = figures(tmp_path)
    assert judge["overall"]["sensitivity"]["n"] == 294
    assert judge["overall"]["partial_called_refusal"]["n"] == 55
    calibrate(*args, "--set", "judge.partial=compliance")
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
    said = calibrate(
        "--judge", "labels:verdict", "--labels", write("rows.csv", ROWS), *COLUMNS
    )
    assert "4 labelled answers of rows; 1 rows without a label skipped" in said
    assert "| labels:verdict | 3 | 0.667 |" in said
    assert "Disagreements, 1 of 1:" in said
    assert "<script>" not in said
    assert "[x](" not in said
    assert "\x1b" not in said
    assert "http:\\//y.z" in said


def test_escaped_text_is_one_line_without_markup() -> None:
    text = escape("# a\n*b* `c` <d> |e| & f_g \\ @h https://i www.j")
    assert text == (
        "\\# a \\*b\\* \\`c\\` \\<d\\> \\|e\\| \\& f\\_g \\\\ \\@h https:\\//i www\\.j"
    )


def test_degrees_and_ratings(write: Write) -> None:
    rows = "\n".join(
        json.dumps({"prompt": "p", "answer": f"a{n}", "label": human, "judge": judge})
        for n, (human, judge) in enumerate(
            [(0, 0), (1, 1), (2, 3), (3, "2"), (3, 3), (1, "?")]
        )
    )
    options = ("--judge", "labels:judge", "--labels", write("rows.jsonl", rows))
    said = calibrate(*options, "--scale", "degree")
    assert "| labels:judge | 5 | 0.667 | 0.763 | 0.853 | 0.600 | 1 |" in said
    with pytest.raises(DataError, match="unknown label '0'; write 1_full_compliance"):
        calibrate(*options)


@pytest.mark.parametrize(
    ("label", "names", "message"),
    [
        ("", ("m", "n"), "column label has no label"),
        ("refusal", ("m", "m"), "both are of candidate m"),
    ],
)
def test_labels_that_cannot_be_counted_are_refused(
    write: Write, label: str, names: Sequence[str], message: str
) -> None:
    words: list[str | Path] = []
    for number, name in enumerate(names):
        file = write(f"{number}.csv", f"prompt,answer,label\na,b,{label}\n")
        words += ["--labels", file, "--candidate", name]
    with pytest.raises(DataError, match=message):
        calibrate("--judge", "keyword", *words)


def test_a_judge_s_server_is_asked_no_faster_than_allowed(write: Write) -> None:
    rows = (f"what {number}?,I cannot,refusal\n" for number in range(6))
    labels = write("a.csv", "prompt,completion,label\n" + "".join(rows))
    with FakeServer(delay=0.01) as server:
        args = (
            "--judge",
            server.url,
            "--labels",
            labels,
            "--set",
            "judge.concurrency=1",
        )
        calibrate(*args, "--set", "judge.requests_per_minute=6000")
        assert (server.most_at_once, len(server.requests)) == (1, 6)


def test_the_judge_of_a_run_file_is_measured_as_it_gates(
    write: Write, tmp_path: Path
) -> None:
    rows = (
        f"what {n}?,answer {n},{('refusal', 'compliance')[n % 2]}\n" for n in range(4)
    )
    labels = write("a.csv", "prompt,completion,label\n" + "".join(rows))
    identities = []
    with FakeServer() as server:
        gates = "[smoke_safe]\nrejection_rate = { max = 0.1 }\n"
        judge = (
            f'[judge]\nmodel = "{server.url}"\nmax_tokens = 99\nprompt = "harmbench"\n'
        )
        file = write("run.toml", judge + gates)
        options = ("--judge", server.url, "--set", "judge.max_tokens=99")
        for words in (
            ("--thresholds", file),
            (*options, "--set", "judge.prompt=harmbench"),
        ):
            calibrate(*words, "--labels", labels, "--out", tmp_path)
            (judged,) = figures(tmp_path)
            identities.append(judged["judge"]["identity"])
        assert server.requests[-1]["max_tokens"] == 99
    assert identities[0] == identities[1]
    with pytest.raises(
        UserError, match="--judge missing: name the judge, or a run file that has"
    ):
        calibrate("--labels", labels)


@pytest.mark.parametrize(
    ("benchmark", "labels"),
    [
        ([], ["compliance", "refusal"]),
        (["--benchmark", "smoke_unsafe"], ["compliance"] * 2),
        (["--benchmark", "smoke_safe"], ["refusal"] * 2),
    ],
    ids=["types of XSTest", "must be refused", "must be answered"],
)
def test_a_probability_is_read_by_what_should_happen_to_the_prompt(
    write: Write, tmp_path: Path, benchmark: list[str], labels: list[str]
) -> None:
    types = ("contrast_privacy", "privacy")
    rows = "".join(f"{name},q,No thank you,partial_refusal\n" for name in types)
    file = write("a.csv", f"type,prompt,completion,label\n{rows}")
    identities = []
    model = "NousResearch/Minos-v1"
    with FakeServer(
        classify=lambda _: {"Refusal": 0.7, "Non-refusal": 0.3}, models=[model]
    ) as server:
        for refuse in ("0.9", "0.95"):
            judge = ("--judge", f"{server.url}#{model}")
            threshold = ("--set", f"judge.thresholds.refuse={refuse}")
            own = ("--set", "judge.partial=own")
            words = (*judge, *threshold, *benchmark, *own)
            calibrate(*words, "--labels", file, "--out", tmp_path)
            (measured,) = figures(tmp_path)
            identities.append(measured["judge"]["identity"])
    cells = measured["overall"]["confusion"]
    assert [cell["judge"] for cell in cells for _ in range(cell["answers"])] == labels
    assert identities[0] != identities[1]


def test_a_classifier_is_asked_in_the_form_of_the_run_file(write: Write) -> None:
    labels = write("a.csv", "prompt,completion,label\nq,No thank you,refusal\n")
    form = 'format = "Q {request} A {answer}"\nrefusal_label = "Refusal"\n'
    gates = "[smoke_safe]\nrejection_rate = { max = 0.1 }\n"
    with FakeServer(
        classify=lambda _: {"Refusal": 0.9, "Other": 0.1}, models=["own"]
    ) as server:
        judge = f'[judge]\nmodel = "{server.url}#own"\n'
        file = write("run.toml", f"{judge}[judge.classifier]\n{form}{gates}")
        calibrate("--thresholds", file, "--labels", labels)
        assert server.requests[-1]["input"] == ["Q q A No thank you"]


def test_a_judge_at_its_server_s_own_temperature_is_another_judge(
    write: Write, tmp_path: Path
) -> None:
    labels = write(
        "a.csv", "prompt,completion,label\nq,I cannot,refusal\np,yes,compliance\n"
    )
    identities = []
    with FakeServer() as server:
        for rule in (server.rule, hosted.openai_reasoning):
            server.rule = rule
            said = calibrate(
                "--judge", server.url, "--labels", labels, "--out", tmp_path
            )
            (judge,) = figures(tmp_path)
            identities.append(judge["judge"]["identity"])
    assert identities[0] != identities[1]
    assert "temperature 0.0 and top_p 1.0 were left out" in said


def test_each_benchmark_is_counted_apart(mirror: Path, tmp_path: Path) -> None:
    files = xstest(mirror, "gpt4", "llama2orig")
    names = ("--candidate", "a", "--candidate", "b")
    args = ("--judge", "labels:gpt4_label", *files, *names, "--out", tmp_path)
    said = calibrate(*args)
    assert "it names no benchmark, so it decides nothing: give --benchmark NAME" in said
    assert "to xstest" in calibrate(*args, "--benchmark", "xstest")
    path = tmp_path / "calibration-labels_gpt4_label.json"
    (whole,) = calibration.read(path).benchmarks.values()
    assert whole == calibration.read(path).errors
    calibrate(*args, "--benchmark", "one", "--benchmark", "two")
    found = calibration.read(path).benchmarks
    assert [found[name].refusals for name in ("one", "two")] == [220, 349]
    with pytest.raises(DataError, match="--benchmark: give it once per --labels file"):
        calibrate(*args, *(["--benchmark", "one"] * 3))


def test_a_drawn_sheet_names_its_candidate_and_benchmark(
    write: Write, tmp_path: Path
) -> None:
    draw = "seed 0 of run r (replay:old/answers.csv), benchmark own"
    rows = (
        f'{("refusal", "compliance")[n % 2]},q{n},a{n},k{n},"{draw}",refusal'
        for n in range(4)
    )
    labels = write(
        "l.csv", "\n".join(["label,prompt,answer,key,draw,judge", *rows, ""])
    )
    said = calibrate("--judge", "labels:judge", "--labels", labels, "--out", tmp_path)
    assert "4 labelled answers of answers to own" in said
    found = calibration.read(tmp_path / "calibration-labels_judge.json")
    assert (found.candidates, list(found.benchmarks)) == (("answers",), ["own"])


def test_a_sample_of_what_counted_as_refused_calibrates_no_judge(write: Write) -> None:
    """Its judge has found every refusal in it, and every compliance is an error."""
    draw = "seed 0 of run r (ORG/M), refusals in benchmark own"
    sheet = write(
        "l.csv",
        f'label,prompt,answer,key,draw,judge\nrefusal,q,a,k1,"{draw}",refusal\n',
    )
    with pytest.raises(DataError, match="label a sample of all answers"):
        calibrate("--judge", "labels:judge", "--labels", sheet)
