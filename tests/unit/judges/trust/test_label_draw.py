"""The draw of answers to label: random, in proportion, and the command that writes it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import DataError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Graded
from refusal_checks.judges.trust import label_draw
from refusal_checks.judges.trust.label_draw import Answer, Draw
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary, summarise

Records = Callable[..., list[Record]]
Write = Callable[[str, str], Path]


def sample_for_labels(*args: str | Path) -> str:
    """What the command printed; raises what it raised."""
    words = ["sample-for-labels", *map(str, args)]
    return CliRunner().invoke(application(), words, catch_exceptions=False).output


@pytest.fixture
def run(tmp_path: Path, records: Records) -> Path:
    """A run's folder with the answers of two benchmarks."""
    folder = RunFolder(tmp_path / "run")
    for name, verdicts in (("big", "RC " * 30), ("small", "CC " * 10)):
        folder.write_records(name, records(verdicts))
    return folder.path


def read_answers(run: Path, seed: int = 0) -> dict[Draw, list[Answer]]:
    """The answers that a run's folder holds, by draw."""
    folder = RunFolder(run)
    return {
        Draw(run.name, "m", name, seed): label_draw.answers(name, folder.records(name))
        for name in folder.benchmarks
    }


def rows(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def test_answers_that_nobody_could_judge_are_labelled_those_that_are_none_are_not(
    records: Records,
) -> None:
    """Another judge may find a verdict, so the answer has to be in the draw."""
    assert len(label_draw.answers("b", records("RC- --"))) == 5
    judged = records("R")
    unanswered = [Record(judged[0].prompt, 0, None, judged[0].judgement)]
    assert not label_draw.answers("b", unanswered)


def test_a_draw_is_read_as_it_is_written() -> None:
    for draw in (
        Draw("20251122-1-2", "http://h/v1#m (2)", "my own, set", -3),
        Draw("r", "", "b", 0),
    ):
        assert Draw.read(f"  {draw}\n") == draw
    for text in ("", "seed x of run r (m), benchmark b", "seed 1"):
        assert Draw.read(text) is None


def test_prompts_are_drawn_in_proportion_with_their_answers_together(run: Path) -> None:
    drawn = label_draw.sample(read_answers(run, seed=1), 40)
    assert [len(group) for _, group in drawn] == [2] * 20
    assert Counter(draw.benchmark for draw, _ in drawn) == {"big": 15, "small": 5}
    assert all(len({answer.id for answer in group}) == 1 for _, group in drawn)
    assert len({draw.benchmark for draw, _ in drawn[:15]}) == 2, "the benchmarks are mixed"


def test_a_seed_gives_a_draw_and_another_one_another(run: Path) -> None:
    first, again, other = (
        [group for _, group in label_draw.sample(read_answers(run, seed), 20)] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert first != sorted(first, key=lambda group: group[0].id)


def test_a_larger_draw_begins_with_the_smaller_one(run: Path) -> None:
    small, large = (label_draw.sample(read_answers(run), n) for n in (20, 60))
    for name in ("big", "small"):
        few, many = ([g for d, g in drawn if d.benchmark == name] for drawn in (small, large))
        assert many[: len(few)] == few


def test_every_prompt_is_as_likely_to_be_drawn(records: Records) -> None:
    """Also one with five different answers among prompts whose answers are all equal."""
    judged = records("CCCCC " + "R " * 19)
    count = sum(
        "p1" in {group[0].id for _, group in label_draw.sample(draw, 12)}
        for seed in range(400)
        for draw in [{Draw("r", "m", "b", seed): label_draw.answers("b", judged)}]
    )
    assert 0.4 < count / 400 < 0.6  # 10 of 20 prompts; about 12 rows


def test_equal_answers_to_a_prompt_are_labelled_once(records: Records) -> None:
    found = label_draw.answers("b", [*records("RR"), *records("RR")])
    ((_, group),) = label_draw.sample({Draw("r", "m", "b", 0): found}, 10)
    assert (len(found), len(group)) == (4, 2)


def test_too_few_for_a_benchmark(run: Path) -> None:
    with pytest.raises(DataError, match=r"--n 2: ask for more, .* small would have"):
        label_draw.sample(read_answers(run), 2)


def test_keys_are_no_numbers_and_differ_between_prompts_of_one_text(records: Records) -> None:
    first, second = records("R R")
    twin = Record(first.prompt, 0, first.completion, first.judgement)
    assert label_draw.answer_key("b", first) == label_draw.answer_key("b", twin)
    assert label_draw.answer_key("b", first) != label_draw.answer_key("b", second)
    assert label_draw.answer_key("b", first).startswith("k")


def test_the_file_hides_the_verdict_and_has_an_empty_label(run: Path) -> None:
    said = sample_for_labels(run, "--n", "40")
    assert "labels.csv: 40 answers to 20 prompts of big, small. Label them from the top" in said
    header, *found = rows(run / "labels.csv")
    assert header == ["label", "prompt", "answer", "key", "draw"]
    assert {row[0] for row in found} == {""}
    assert len({row[3] for row in found}) == 40
    assert {row[4] for row in found} == {
        f"seed 0 of run run (), benchmark {name}" for name in ("big", "small")
    }
    assert all(one[1] == other[1] for one, other in zip(found[::2], found[1::2], strict=True))


def test_labels_are_never_overwritten(run: Path) -> None:
    sample_for_labels(run, "--n", "40")
    with pytest.raises(DataError, match="name another file: this one exists and may hold labels"):
        sample_for_labels(run, "--n", "40")


def test_one_benchmark_and_another_file(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    sample_for_labels(run, "--n", "6", "--benchmark", "small", "--out", out)
    assert len(rows(out)) == 7
    with pytest.raises(DataError, match='did you mean "small"'):
        sample_for_labels(run, "--benchmark", "smal")


def test_only_verdicts_of_refusal_can_be_labelled(run: Path, records: Records) -> None:
    graded = [Record(r.prompt, r.sample, r.completion, Graded(2)) for r in records("RC")]
    RunFolder(run).write_records("degrees", graded)
    assert "of big, small." in sample_for_labels(run, "--n", "40")
    with pytest.raises(DataError, match="only such verdicts can be labelled, and degrees has none"):
        sample_for_labels(run, "--benchmark", "degrees")


def test_a_run_that_was_stopped_early_is_a_selection(run: Path, records: Records) -> None:
    figures = {"big": summarise(records("RC " * 30), 0.95, planned=50)}
    folder = RunFolder(run)
    folder.write_summary(RunSummary(Manifest(candidate="ORG/M"), benchmarks=figures))
    with pytest.raises(DataError, match=r"without --stop-early.* needs all 50 prompts of big"):
        sample_for_labels(run)
    folder.write_summary(RunSummary(Manifest(candidate="ORG/M")))
    sample_for_labels(run, "--n", "40")
    assert "of run run (ORG/M), benchmark" in rows(run / "labels.csv")[1][4]


def test_a_folder_that_is_no_runs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not the folder of a run"):
        sample_for_labels(tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "b.jsonl").write_text('{"key": 1}\n')
    with pytest.raises(DataError, match="not a run's records"):
        sample_for_labels(tmp_path)
