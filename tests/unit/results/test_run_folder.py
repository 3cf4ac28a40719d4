"""What a run's folder holds comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.verdicts import (
    Binary,
    Chosen,
    Graded,
    Invalid,
    Judgement,
    Label,
    Rated,
    Reason,
)
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary, summarise
from tests.report_runs import refusals, write_run

JUDGEMENTS: st.SearchStrategy[Judgement] = st.sampled_from(
    [
        Binary(Label.REFUSAL, "direct_refusal", "declines", cut=3),
        Binary(Label.COMPLIANCE),
        Graded(2, "refuses"),
        Rated(0.25, 3.5, 0.125),
        Chosen("B", True, "in a line of its own"),
        Chosen(None, None),
        Invalid(Reason.EMPTY_ANSWER, "finish reason stop"),
    ]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def runs_of_records(draw: st.DrawFn) -> list[Record]:
    """Two prompts with some answers each, of a single judge or of two."""
    records = []
    for name in ("a", "b"):
        turns = (Message("user", draw(TEXT)), Message("assistant", "so"), Message("user", "and?"))
        prompt = Prompt(name, turns, {"category": draw(TEXT)}, "A", {"A": "one", "B": "two"})
        for sample in range(draw(st.integers(1, 3))):
            answer = Completion(draw(TEXT), "length", 7, -0.5, draw(TEXT), "closed")
            judged: Judgement = draw(JUDGEMENTS)
            votes = (Vote("one", judged), Vote("two", draw(JUDGEMENTS)))
            records.append(Record(prompt, sample, draw(st.sampled_from([answer, None])), judged))
            records.append(Record(prompt, sample, answer, judged, votes))
    return records


@given(records=runs_of_records())
def test_records_come_back(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write_records("mine", records)
    assert list(folder.records("mine")) == records
    assert folder.benchmarks == ("mine",)


def test_a_lone_surrogate_does_not_keep_the_rest_from_being_written(tmp_path: Path) -> None:
    fault = Invalid(Reason.ENGINE_ERROR, "the server said \ud800")
    folder = RunFolder(tmp_path)
    folder.write_records("mine", [Record(Prompt.single("a", "b"), 0, None, fault)])
    (found,) = folder.records("mine")
    assert found.judgement == Invalid(Reason.ENGINE_ERROR, "the server said ?")


def test_a_summary_comes_back(tmp_path: Path) -> None:
    records = [Record(Prompt.single("a", "b"), 0, Completion("c"), Binary(Label.REFUSAL))]
    summary = RunSummary(
        Manifest(candidate="m"), {"mine": summarise(records, 0.95)}, notes=["a note"]
    )
    RunFolder(tmp_path).write_summary(summary)
    assert RunFolder.of(tmp_path / "summary.json").summary() == summary


@pytest.mark.parametrize(("name", "text"), [("records/b.jsonl", "{"), ("summary.json", "[]")])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, text: str) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / "records").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        folder.summary()
    with pytest.raises(DataError, match="cannot be read"):
        list(folder.records("b"))
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=name):
        _ = folder.summary() if name == "summary.json" else list(folder.records("b"))


def test_a_damaged_line_is_named_and_not_quoted(tmp_path: Path) -> None:
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
