"""Scores files: what they hold, what they never hold, and what is said of wrong ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.core.errors import BaselineError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.gates import score_files
from refusal_checks.gates.score_files import Scores
from refusal_checks.metrics import score_all
from refusal_checks.metrics.statistics.intervals import Estimate
from tests.support.tables import put
from tests.unit.conftest import records


def scores_of(records: list[Record], benchmark: str = "bench") -> Scores:
    keys: dict[str, list[str]] = {}
    for record in records:
        keys.setdefault(record.prompt.id, []).append(
            f"{record.prompt.id}-{record.sample}"
        )
    named = lambda prompt: keys[prompt.id]  # noqa: E731
    prompts = dict(score_files.score_prompts(records, score_all(records), named))
    figures = {"rejection_rate": Estimate(1 / 3, 0.1, 0.6, 3)}
    conditions = {"judge": "one", "data": "digest 1"}
    when = "2026-01-01"
    return Scores(
        benchmark, Kind.SAFETY, "org/model", "v1", when, conditions, figures, prompts
    )


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    scores = scores_of(records("RR RC C-"))
    path = tmp_path / "bench.json"
    path.write_text(score_files.dump(scores))
    again = score_files.read(path)
    assert again.prompts == scores.prompts
    assert again.conditions == scores.conditions
    assert again.figures["rejection_rate"].value == pytest.approx(1 / 3, abs=1e-9)
    assert score_files.dump(again) == path.read_text()


def test_a_file_holds_no_text() -> None:
    found = records("RR C- --", category="fraud")
    text = score_files.dump(scores_of(found))
    words = ["it declines", "it answers", "no verdict here"]
    for word in [*words, "fraud", "request", "answer "]:
        assert any(word in str(record) for record in found)
        assert word not in text


def test_a_file_is_sorted_with_one_prompt_a_line() -> None:
    found = records("R C R")
    text = score_files.dump(scores_of(found))
    assert text == score_files.dump(scores_of(found[::-1]))
    lines = [line for line in text.splitlines() if line.startswith('  "p')]
    assert [line.split('"')[1] for line in lines] == ["p1", "p2", "p3"]


def write(folder: Path, *names: str) -> None:
    for name in names:
        scores = scores_of(records("R"), name)
        put(folder, f"{name}.json", score_files.dump(scores))


def test_a_run_its_summary_a_folder_and_a_file_can_be_named(tmp_path: Path) -> None:
    write(tmp_path / "run" / "scores", "one", "two")
    (tmp_path / "run" / "summary.json").write_text("{}")
    for path in ("run", "run/summary.json", "run/scores"):
        assert set(score_files.load(tmp_path / path)) == {"one", "two"}
    assert set(score_files.load(tmp_path / "run" / "scores" / "one.json")) == {"one"}


OTHER_FORMAT = replace(scores_of(records("R")), format=99)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a baseline file"),
        ("{}", "benchmark"),
        ('{"benchmark": 1}', "refusal-checks baseline accept"),
        (score_files.dump(OTHER_FORMAT), "has format 99"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = put(tmp_path, "wrong.json", text)
    with pytest.raises(BaselineError, match=rf"wrong\.json.*{reason}"):
        score_files.load(path)


def test_a_folder_or_file_without_scores_is_named(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="no baseline here"):
        score_files.load(tmp_path)
    with pytest.raises(BaselineError, match=r"none\.json.*No such file"):
        score_files.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ({"data": "same"}, {"data": "same"}, ""),
        ({}, {"sampling": "n 1"}, "sampling: none then, n 1 now"),
        (
            {"sampling": "n 1, seed 1"},
            {"sampling": "n 1, seed 2"},
            "sampling: seed 1 then, seed 2 now",
        ),
    ],
)
def test_a_difference_is_named_with_both_values(
    then: dict[str, str], now: dict[str, str], told: str
) -> None:
    found = score_files.differences(then, now)
    assert found == [f"other {told}"] * bool(told)
