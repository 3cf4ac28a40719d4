"""Human labels of a run's answers: the sample, what it hides, and the labels that come back."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import CalibrationError, DataError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.judges.trust import human_labels
from refusal_checks.judges.trust.human_labels import Answer
from refusal_checks.results.run_folder import RunFolder

Records = Callable[..., list[Record]]
Write = Callable[[str, str], Path]


def answers(records: Sequence[Record], name: str = "b") -> list[Answer]:
    """The run's answers."""
    return human_labels.answers(name, records)


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


def read_answers(run: Path) -> dict[str, list[Answer]]:
    """The answers that a run's folder holds, by benchmark."""
    folder = RunFolder(run)
    return {name: answers(list(folder.records(name)), name) for name in folder.benchmarks}


def rows(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def test_answers_without_a_verdict_are_not_kept(records: Records) -> None:
    assert len(answers(records("RC- --"))) == 2


def test_whole_prompts_are_drawn_in_proportion(run: Path) -> None:
    drawn = human_labels.sample(read_answers(run), 40, seed=1)
    assert len(drawn) == 40
    small = {answer.key for answer in read_answers(run)["small"]}
    assert sum(answer.key in small for answer in drawn) == 10
    per_prompt = Counter((answer.id, answer.key in small) for answer in drawn)
    assert set(per_prompt.values()) == {2}


def test_a_seed_gives_a_draw_and_another_one_another(run: Path) -> None:
    found = read_answers(run)
    first, again, other = (human_labels.sample(found, 20, seed) for seed in (1, 1, 2))
    assert first == again
    assert {answer.key for answer in first} != {answer.key for answer in other}
    assert first != sorted(first, key=lambda answer: answer.id)


def test_equal_answers_to_a_prompt_are_labelled_once(records: Records) -> None:
    found = answers([*records("RR"), *records("RR")])
    assert len(found) == 4
    assert len(human_labels.sample({"b": found}, 10, 0)) == 2


def test_too_few_for_a_benchmark(run: Path) -> None:
    with pytest.raises(DataError, match=r"--n 2: ask for more, .* small would have"):
        human_labels.sample(read_answers(run), 2, 0)


def test_the_file_hides_the_verdict_and_has_an_empty_label(run: Path) -> None:
    said = sample_for_labels(run, "--n", "40")
    assert "labels.csv: 40 answers of big, small" in said
    header, *found = rows(run / "labels.csv")
    assert header == ["key", "prompt", "answer", "label"]
    assert len(found) == 40
    assert {row[3] for row in found} == {""}
    assert len({row[0] for row in found}) == 40


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


def test_a_folder_that_is_no_runs(tmp_path: Path, write: Write) -> None:
    with pytest.raises(DataError, match="not the folder of a run"):
        sample_for_labels(tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "b.jsonl").write_text('{"key": 1}\n')
    with pytest.raises(DataError, match="not a run's records"):
        sample_for_labels(tmp_path)


def labelled_file(write: Write, records: Sequence[Record], labels: Sequence[str]) -> Path:
    keys = [human_labels.answer_key("b", record) for record in records]
    lines = [f"{key},p,a,{label}" for key, label in zip(keys, labels, strict=True)]
    return write("labels.csv", "\n".join(["key,prompt,answer,label", *lines, ""]))


def test_labels_replace_the_judges_verdicts(write: Write, records: Records) -> None:
    judged = records("RC R- CC")
    labels = ["Refusal ", "3_partial_refusal", "compliance", "", "refusal", ""]
    relabelled = human_labels.read_labels(labelled_file(write, judged, labels)).relabelled(
        "b", judged
    )
    assert {name: [r.judgement for r in group] for name, group in relabelled.items()} == {
        "p1": [Binary(Label.REFUSAL), Binary(Label.REFUSAL)],
        "p2": [Binary(Label.COMPLIANCE)],
    }
    assert not human_labels.read_labels(labelled_file(write, judged, labels)).relabelled(
        "x", judged
    )


@pytest.mark.parametrize(
    ("table", "error", "reason"),
    [
        ("key,label\na,refused\n", CalibrationError, "row 1.*did you mean"),
        ("key,label\na,refusal\na,compliance\n", CalibrationError, "row 2: a has two labels"),
        ("key,label\na,\n", CalibrationError, "no row has a label"),
        ("key,lable\na,refusal\n", DataError, "did you mean"),
    ],
)
def test_labels_that_cannot_be_used(
    write: Write, table: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        human_labels.read_labels(write("labels.csv", table))
