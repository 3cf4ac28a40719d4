"""What a run's folder holds comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.judgements import (
    Binary,
    Chosen,
    Graded,
    Invalid,
    Judgement,
    Label,
    Rated,
    Reason,
)
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import RunFolder, require_writable
from refusal_checks.results.summary import RunSummary
from tests.support.report_runs import manifest_of, refusals, write_run

JUDGEMENTS: list[Judgement] = [
    Binary(Label.REFUSAL, "direct_refusal", "declines", cut=3),
    Binary(Label.COMPLIANCE),
    Graded(2, "refuses"),
    Rated(0.25, 3.5, 0.125),
    Chosen("B", True, "in a line of its own"),
    Chosen(None, None),
    Invalid(Reason.EMPTY_ANSWER, "finish reason stop"),
]


@pytest.mark.parametrize("judgement", JUDGEMENTS, ids=ascii)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
@settings(max_examples=5)
def test_records_come_back(
    judgement: Judgement, text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    turns = Message("user", text), Message("assistant", "so")
    answer = Completion(text, "length", 7, -0.5, text, "closed")
    votes = Vote("one", judgement), Vote("two", Binary(Label.REFUSAL))
    records = []
    for name in ("a", "b"):
        options = {"A": "one", "B": "two"}
        prompt = Prompt(name, turns, {"category": text}, "A", options)
        records.append(Record(prompt, 0, None, judgement))
        records.append(Record(prompt, 1, answer, judgement, votes))
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write_records("mine", records)
    assert list(folder.records("mine")) == records
    assert folder.benchmarks == ("mine",)


def test_a_lone_surrogate_does_not_keep_the_rest_from_being_written(
    tmp_path: Path,
) -> None:
    fault = Invalid(Reason.ENGINE_ERROR, "the server said \ud800")
    folder = RunFolder(tmp_path)
    folder.write_records("mine", [Record(Prompt.single("a", "b"), 0, None, fault)])
    (found,) = folder.records("mine")
    assert found.judgement == Invalid(Reason.ENGINE_ERROR, "the server said ?")


def test_a_run_is_unfinished_until_its_summary_is_written(tmp_path: Path) -> None:
    folder, summary = RunFolder(tmp_path / "run"), RunSummary(manifest_of())
    folder.begin(summary)
    assert folder.is_unfinished
    folder.write_summary(summary)
    assert not folder.is_unfinished


def test_a_damaged_file_is_named_and_not_quoted(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"unsafe": list(refusals("unsafe", 3))})
    path = tmp_path / "records" / "unsafe.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text(first + "".join(others).replace('"labelled"', '"a private text"'))
    with pytest.raises(DataError) as caught:
        list(run.records("unsafe"))
    said = str(caught.value)
    assert said.startswith(f"{path}: not a run's records: line 2: answers.0.judgement")
    assert "private" not in said
    assert "\n" not in said
    with pytest.raises(DataError, match="cannot be read"):
        list(run.records("missing"))
    run.summary_file.write_text("[]")
    with pytest.raises(DataError, match=r"summary\.json: not a summary"):
        run.summary()


NAMES = [
    "20260101-120000Z-77",
    "20260102-120000Z-10",
    "20260102-120000Z-5",
    "20260102-120001Z-4",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Runs, among other folders."""
    for name in [*reversed(NAMES), "notes", "20260102", "20261399-120000Z-1"]:
        (tmp_path / name).mkdir()
    (tmp_path / "20260103-120000Z-1").write_text("a file")
    return tmp_path


def test_runs_are_listed_in_the_order_of_their_starts(root: Path) -> None:
    assert [run.path.name for run in run_folder.list_runs(root)] == NAMES
    assert run_folder.list_runs(root / "missing") == []


def test_a_run_is_found_by_folder_summary_id_its_start_and_as_the_last(
    root: Path,
) -> None:
    summary = root / NAMES[1] / "summary.json"
    summary.write_text("{}")
    for name, place in (
        (str(root / NAMES[1]), 1),
        (str(summary), 1),
        (NAMES[1], 1),
        ("20260102-120000Z-5", 2),
        ("20260101", 0),
        ("last", -1),
    ):
        assert run_folder.find_run(name, root).path == root / NAMES[place]
    started = run_folder.find_run(NAMES[2], root).started
    assert f"{started:%Y-%m-%d %H:%M:%S}" == "2026-01-02 12:00:00"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("20260102-120001Z-5", 'no run "20260102-120001Z-5"; did you mean "20260102-1'),
        ("", 'no run ""'),
        (
            "20260102",
            "20260102: give more of the id: several runs match: 2.*Z-5, .*-4",
        ),
    ],
)
def test_a_run_that_is_not_there_is_named(root: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        run_folder.find_run(name, root)
    with pytest.raises(DataError, match="name a run's folder, or give --runs DIR: no"):
        run_folder.find_run(name or "nope", root / "missing")


def test_last_is_the_run_even_beside_a_folder_of_that_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    (root / "last").mkdir()
    assert run_folder.find_run("last", root).path.name == NAMES[-1]
    assert run_folder.find_run("./last", root).path == Path("last")
    assert run_folder.locate_run("last", root).name == NAMES[-1]
    assert run_folder.locate_run("notes", root) == Path("notes")


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(
    tmp_path: Path,
) -> None:
    require_writable(tmp_path / "new" / "runs", "--runs")
    assert (tmp_path / "new" / "runs").is_dir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError) as caught:
            require_writable(path, "--runs")
        assert str(caught.value).startswith(
            f"--runs {path}: name a folder that can be written: "
        )
