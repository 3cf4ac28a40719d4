"""``refusal-checks report``: charts and the comparison of judges, and the options of each kind."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.benchmarks.suites.cfsafety import CATEGORIES, published
from refusal_checks.cli import application
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.files import write_text
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.verdicts import Rated
from refusal_checks.gates.score_files import PromptScores, Scores, dump
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary, summarise
from tests.report_runs import manifest_of


def scores(offset: float = 0.0) -> dict[str, float]:
    """Scores of ten prompts of every category, which translate one another where any do."""
    rows = [*range(5), *range(1250, 1255)]
    return {
        f"{name}-{row}": min(5.0, 0.4 * place + offset + 0.1 * (row % 5))
        for place, name in enumerate(CATEGORIES)
        for row in rows
    }


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Writes a run's summary and returns its folder."""

    def write(
        name: str,
        candidate: str = "ORG/MODEL",
        offset: float = 0.0,
        benchmark: str = "cfsafety",
        votes: dict[str, float] | None = None,
    ) -> Path:
        records = [
            Record(
                Prompt.single(prompt, "?", category=prompt.rpartition("-")[0]),
                0,
                Completion("a"),
                Rated(1.0, score),
                tuple(
                    Vote(judge, Rated(1.0, score * (1 + change)))
                    for judge, change in (votes or {}).items()
                ),
            )
            for prompt, score in scores(offset).items()
        ]
        models = {"candidate": {"version": candidate}}
        judge = f"judge of {name}"
        summary = RunSummary(
            manifest_of(benchmark, candidate=candidate, judge=judge, models=models)
        )
        summary.benchmarks[benchmark] = summarise(records, 0.95)
        folder = tmp_path / name
        folder.mkdir()
        RunFolder(folder).write_summary(summary)
        return folder

    return write


def report(*args: str | Path) -> None:
    application()(["report", *map(str, args)], standalone_mode=False)


def text(path: Path) -> str:
    return " ".join(ET.parse(path).getroot().itertext())


def test_a_radar_names_every_category_and_series(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "charts" / "radar.svg"
    other = run("second", "ORG/OTHER", 0.5)
    report("radar", run("first"), other, "--against", "GPT4", "--out", out)
    shown = text(out)
    for words in (
        "ORG/MODEL",
        "ORG/OTHER",
        "GPT4, as published",
        "Persuasion",
        "Privacy",
    ):
        assert words in shown


def test_equal_charts_are_equal_files_and_equal_names_two_lines(
    run: Any, tmp_path: Path
) -> None:
    found, other = run("first"), run("second")
    for name in ("a.svg", "b.svg"):
        report("radar", found, other, "--out", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert text(tmp_path / "a.svg").count("ORG/MODEL") == 2


def test_names_are_harmless_text(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, folder = tmp_path / "radar.svg", run("first", "a <script>$x_{y$ \x1b[31m模型")
    report("radar", folder, "--out", out)
    assert "<script>$x_{y$" in text(out)
    path = folder / "summary.json"
    path.write_text(
        path.read_text().replace("Criminal_Unethical", "##[error]\\u001b[31mforged")
    )
    report("histogram", folder, "--out", tmp_path / "histogram.svg")
    shown = capsys.readouterr().out
    assert "forged" in shown
    assert not [bad for bad in ("<script>", "\x1b") if bad in out.read_text()]
    assert not [bad for bad in ("\x1b", "##[") if bad in shown]


def test_histograms_say_how_many_scores_they_have(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "histogram.svg"
    report("histogram", run("first"), "--out", out)
    assert "Prompt Leakage" in text(out)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:10]] == list(CATEGORIES)
    assert "n = " in lines[0]


def test_a_benchmark_of_refusals_has_a_histogram_of_its_confidences(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run("first")
    vote = PromptScores("", {"mean_refusal_confidence": 0.6})
    votes = {f"p{number}": vote for number in range(9)}
    known = Scores("cfsafety", Kind.SAFETY, "m", "", "", {}, {}, votes)
    write_text(folder / "scores" / "cfsafety.json", dump(known))
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    summary["benchmarks"]["cfsafety"]["distributions"] = {}
    path.write_text(json.dumps(summary))
    report("histogram", folder, "--out", tmp_path / "histogram.svg")
    assert "refusal confidence" in text(tmp_path / "histogram.svg")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "refusal confidence: n = 9"
    (folder / "scores" / "cfsafety.json").unlink()
    with pytest.raises(
        DataError, match="name another --benchmark: cfsafety has neither"
    ):
        report("histogram", folder, "--out", tmp_path / "histogram.svg")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("radar RUN --against GPT5", 'no model of the paper "GPT5".*GPT3'),
        (
            "radar RUN --against GPT4 --benchmark mine",
            "--against: leave it out with --benchmark",
        ),
        (
            "radar RUN --out radar.png",
            r"radar\.png: name a file that ends in \.svg.*converters",
        ),
        ("radar RUN MODELS", "name at most 8 runs and models"),
        ("radar RUN --benchmark cfsaftey", 'did you mean "cfsafety"'),
        ("radra RUN", 'report: no kind "radra"; did you mean "radar"'),
        ("histogram RUN RUN", "report histogram: name one run: 2 are named"),
        ("histogram RUN --against GPT4", "leave out --against.*: radar$"),
        ("html RUN --benchmark cfsafety", "leave out --benchmark.*: radar, histogram$"),
        (
            "consistency RUN --out table.txt",
            "leave out --out.*: html, junit-prompts, pr-comment, ",
        ),
    ],
)
def test_mistakes_are_named(run: Any, words: str, message: str) -> None:
    models = " ".join(f"--against={name}" for name in published())
    named = words.replace("RUN", str(run("first"))).replace("MODELS", models)
    with pytest.raises(UserError, match=message):
        report(*named.split())


def test_judges_are_compared_by_category_and_across_languages(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run("first")
    report("consistency", first)
    assert capsys.readouterr().out.startswith(
        "judge judge of first (first): answers to a prompt"
    )
    report("consistency", first, run("second", offset=0.25))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "judges judge of first (first) and judge of second (second)"
    table = {
        line.split()[0]: line.split()[1:] for line in lines if line.startswith("  ")
    }
    assert lines[2].split() == ["SocialBias", "10", "1.000", "1.000", "0.250"]
    assert lines[12].split()[:2] == ["all", "100"]
    assert sum("its translation" in line for line in lines) == 2
    # PromptLeakage and ReverseExposure pair row 0 with row 1250.
    assert table["ReverseExposure"][:2] == ["5", "1.000"]


def test_the_judges_of_one_run_are_compared(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    report("consistency", run("both", votes={"A": 0.0, "B": -0.5}))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "judges A (both) and B (both)"
    assert lines[12].split() == ["all", "100", "1.000", "1.000", "1.000"]
    assert sum("its translation" in line for line in lines) == 2


def test_other_answers_cannot_be_compared(run: Any) -> None:
    with pytest.raises(DataError, match="another candidate than"):
        report("consistency", run("first"), run("second", candidate="ORG/OTHER"))
    with pytest.raises(DataError, match='no benchmark "cfsafety"'):
        report("consistency", run("third", benchmark="smoke"))
