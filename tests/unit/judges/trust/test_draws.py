"""The draw of answers to label: random, in proportion, and the command that writes it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Graded
from refusal_checks.judges.trust import draws
from refusal_checks.judges.trust.draws import Draw, LabelRow
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from tests.report_runs import manifest_of, seal
from tests.unit.conftest import records

RUN_1 = Draw("run-1", "ORG/M", "b", 0)


def sample_for_labels(*args: str | Path) -> str:
    """What the command printed; raises what it raised."""
    words = ["sample-for-labels", *map(str, args)]
    return CliRunner().invoke(application(), words, catch_exceptions=False).output


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with the answers of two benchmarks."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(manifest_of("big", "small"))
    for name, verdicts in (("big", "RC " * 30), ("small", "CC " * 10)):
        folder.write_records(name, records(verdicts))
    return folder.path


def read_answers(run: Path, seed: int = 0) -> list[LabelRow]:
    """The answers that a run's folder holds."""
    folder = RunFolder(run)
    return [
        row
        for name in folder.benchmarks
        for row in draws.answers(Draw(run.name, "m", name, seed), folder.records(name))
    ]


def benchmark(row: LabelRow) -> str:
    return row.draw.benchmark


def rows(path: Path) -> list[list[str]]:
    return list(
        csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""))
    )


def test_answers_that_nobody_could_judge_are_labelled_those_that_are_none_are_not() -> (
    None
):
    """Another judge may find a verdict, so the answer has to be in the draw."""
    assert len(draws.answers(RUN_1, records("RC- --"))) == 5
    judged = records("R")
    unanswered = [Record(judged[0].prompt, 0, None, judged[0].judgement)]
    assert not draws.answers(RUN_1, unanswered)


def test_equal_answers_to_a_prompt_have_one_key_that_is_no_number() -> None:
    rows = draws.answers(RUN_1, [*records("RR"), *records("RR")])
    (row,) = draws.sample(rows, 10)
    assert (len(rows), len({row.key for row in rows})) == (4, 2)
    assert row.key.startswith("k")
    first, second = (draws.answer_key("b", record) for record in records("R R"))
    assert first != second


def test_a_draw_is_read_as_it_is_written() -> None:
    other = Draw("20251122-1-2", "http://h/v1#m (2)", "my own, set", -3)
    for draw in (RUN_1, other, replace(other, of="refusals")):
        assert Draw.read(f"  {draw}\n") == draw
    for text in ("", "seed x of run r (m), benchmark b", "seed 1"):
        assert Draw.read(text) is None


def test_prompts_are_drawn_in_proportion_with_one_answer_each(run: Path) -> None:
    drawn = draws.sample(read_answers(run, seed=1), 20)
    assert len({(benchmark(row), row.id) for row in drawn}) == len(drawn) == 20
    assert Counter(map(benchmark, drawn)) == {"big": 15, "small": 5}
    assert len(set(map(benchmark, drawn[:15]))) == 2, "the benchmarks are mixed"

    def keys(seed: int, n: int) -> list[str]:
        return [row.key for row in draws.sample(read_answers(run, seed), n)]

    first, larger = keys(1, 10), keys(1, 30)
    assert (len(first), len(larger)) == (10, 30)
    assert first == keys(1, 10) != keys(2, 10)
    assert [key for key in larger if key in first] == first != sorted(first)
    with pytest.raises(DataError, match=r"--n 2: ask for more, .* small would have"):
        draws.sample(read_answers(run), 2)


def test_every_prompt_and_every_answer_is_as_likely_to_be_drawn() -> None:
    """Also a prompt with five answers among prompts with one, and its only refusal."""
    judged = records("CCCCR " + "R " * 19)
    drawn = []
    for seed in range(200):
        rows = draws.answers(Draw("r", "m", "b", seed), judged)
        drawn += [row for row in draws.sample(rows, 10) if row.id == "p1"]
    refusals = sum(row.key == draws.answer_key("b", judged[4]) for row in drawn)
    assert 80 < len(drawn) < 120  # 10 of 20 prompts
    assert 0.1 < refusals / len(drawn) < 0.3  # one of five answers


def test_the_file_hides_the_verdict_and_has_an_empty_label(run: Path) -> None:
    said = sample_for_labels(run, "--n", "20")
    words = (
        "labels.csv: 20 answers to 20 prompts of big, small. Label them from the top"
    )
    assert words in said
    header, *cells = rows(run / "labels.csv")
    assert header == ["label", "prompt", "answer", "key", "draw"]
    label, _, _, key, draw = zip(*cells, strict=True)
    assert set(label) == {""}
    assert len(set(key)) == 20
    names = {f"seed 0 of run run (), benchmark {name}" for name in ("big", "small")}
    assert set(draw) == names


def test_a_sample_of_what_counted_as_refused_has_single_answers(run: Path) -> None:
    """Of prompts that must be refused: an over-refusal passes no safety gate."""
    for name, kind in (("unsafe", Kind.SAFETY), ("safe", Kind.SANITY)):
        judged = [
            replace(item, prompt=replace(item.prompt, kind=kind))
            for item in records("RRC CC RR- " * 10)
        ]
        RunFolder(run).write_records(name, judged)
    said = sample_for_labels(run, "--of", "refusals")
    assert "refusals.csv: 20 answers that counted as refusals, to 1" in said
    header, *cells = rows(run / "refusals.csv")
    assert header == ["label", "prompt", "answer", "key", "draw"]
    assert {cell[4] for cell in cells} == {
        "seed 0 of run run (), refusals in benchmark unsafe"
    }
    assert all(cell[2].endswith("(R)") for cell in cells)
    out = run / "fewer.csv"
    sample_for_labels(run, "--of", "refusals", "--n", "5", "--out", out)
    assert rows(out)[1:] == cells[:5], "a larger sample begins with a smaller one"


def test_no_refusals_to_sample(run: Path) -> None:
    with pytest.raises(UserError, match="no answer to a prompt that must be refused"):
        sample_for_labels(run, "--of", "refusals")


def test_one_benchmark_and_another_file_which_is_never_overwritten(
    run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine.csv"
    sample_for_labels(run, "--n", "6", "--benchmark", "small", "--out", out)
    assert len(rows(out)) == 7
    why = "name another file: this one exists and may hold labels"
    with pytest.raises(DataError, match=why):
        sample_for_labels(run, "--n", "40", "--out", out)
    with pytest.raises(DataError, match='did you mean "small"'):
        sample_for_labels(run, "--benchmark", "smal")


def test_only_verdicts_of_refusal_can_be_labelled(run: Path) -> None:
    graded = [
        Record(r.prompt, r.sample, r.completion, Graded(2)) for r in records("RC")
    ]
    RunFolder(run).write_records("degrees", graded)
    assert "of big, small." in sample_for_labels(run, "--n", "40")
    with pytest.raises(
        DataError, match="people label only such verdicts, and degrees has none"
    ):
        sample_for_labels(run, "--benchmark", "degrees")


def test_a_part_of_a_run_is_a_selection(run: Path) -> None:
    figures = {"big": summarise(records("RC " * 30), 0.95, planned=50)}
    folder = RunFolder(run)
    folder.write_summary(
        RunSummary(manifest_of("big", candidate="ORG/M"), benchmarks=figures)
    )
    seal(run)
    with pytest.raises(DataError, match=r"run again, .* needs all 50 prompts of big"):
        sample_for_labels(run)
    folder.write_summary(RunSummary(Manifest(candidate="ORG/M")))
    seal(run)
    sample_for_labels(run, "--n", "40")
    assert "of run run (ORG/M), benchmark" in rows(run / "labels.csv")[1][4]
