"""The draw of answers to label: random, in proportion, and the command that writes it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import CalibrationError, DataError
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Graded, Invalid, Label, Reason
from refusal_checks.judges.trust import labels
from refusal_checks.judges.trust.labels import (
    Draw,
    HumanLabels,
    LabelledPrompts,
    LabelRow,
    read_labels,
)
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary, summarise
from tests.report_runs import manifest_of
from tests.unit.conftest import Write, records


def sample_for_labels(*args: str | Path) -> str:
    """What the command printed; raises what it raised."""
    words = ["sample-for-labels", *map(str, args)]
    return CliRunner().invoke(application(), words, catch_exceptions=False).output


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with the answers of two benchmarks."""
    folder = RunFolder(tmp_path / "run")
    for name, verdicts in (("big", "RC " * 30), ("small", "CC " * 10)):
        folder.write_records(name, records(verdicts))
    return folder.path


def read_answers(run: Path, seed: int = 0) -> list[LabelRow]:
    """The answers that a run's folder holds."""
    folder = RunFolder(run)
    return [
        row
        for name in folder.benchmarks
        for row in labels.answers(Draw(run.name, "m", name, seed), folder.records(name))
    ]


def benchmark(group: Sequence[LabelRow]) -> str:
    assert group[0].draw
    return group[0].draw.benchmark


def rows(path: Path) -> list[list[str]]:
    return list(
        csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""))
    )


def test_answers_that_nobody_could_judge_are_labelled_those_that_are_none_are_not() -> (
    None
):
    """Another judge may find a verdict, so the answer has to be in the draw."""
    assert len(labels.answers(RUN_1, records("RC- --"))) == 5
    judged = records("R")
    unanswered = [Record(judged[0].prompt, 0, None, judged[0].judgement)]
    assert not labels.answers(RUN_1, unanswered)


def test_a_draw_is_read_as_it_is_written() -> None:
    for draw in (
        Draw("20251122-1-2", "http://h/v1#m (2)", "my own, set", -3),
        Draw("r", "", "b", 0),
    ):
        assert Draw.read(f"  {draw}\n") == draw
    for text in ("", "seed x of run r (m), benchmark b", "seed 1"):
        assert Draw.read(text) is None


def test_prompts_are_drawn_in_proportion_with_their_answers_together(run: Path) -> None:
    drawn = labels.sample(read_answers(run, seed=1), 40)
    assert [len(group) for group in drawn] == [2] * 20
    assert Counter(map(benchmark, drawn)) == {"big": 15, "small": 5}
    assert all(len({answer.id for answer in group}) == 1 for group in drawn)
    assert len(set(map(benchmark, drawn[:15]))) == 2, "the benchmarks are mixed"


def test_a_seed_gives_a_draw_of_which_a_larger_one_begins_with_the_smaller(
    run: Path,
) -> None:
    first, again, other, larger = (
        [
            [row.key for row in group]
            for group in labels.sample(read_answers(run, seed), n)
        ]
        for seed, n in ((1, 20), (1, 20), (2, 20), (1, 60))
    )
    assert first == again
    assert first != other
    assert first != sorted(first)
    assert [group for group in larger if group in first] == first
    assert len(larger) == 3 * len(first)


def test_every_prompt_is_as_likely_to_be_drawn() -> None:
    """Also one with five different answers among prompts whose answers are all equal."""
    judged = records("CCCCC " + "R " * 19)
    count = sum(
        "p1"
        in {group[0].id for group in labels.sample(labels.answers(draw, judged), 12)}
        for draw in [Draw("r", "m", "b", seed) for seed in range(400)]
    )
    assert 0.4 < count / 400 < 0.6  # 10 of 20 prompts; about 12 rows


def test_equal_answers_to_a_prompt_are_labelled_once() -> None:
    found = labels.answers(RUN_1, [*records("RR"), *records("RR")])
    (group,) = labels.sample(found, 10)
    assert (len(found), len(group)) == (4, 2)


def test_too_few_for_a_benchmark(run: Path) -> None:
    with pytest.raises(DataError, match=r"--n 2: ask for more, .* small would have"):
        labels.sample(read_answers(run), 2)


def test_keys_are_no_numbers_and_differ_between_prompts_of_one_text() -> None:
    first, second = (labels.answer_key("b", record) for record in records("R R"))
    assert first != second
    assert first.startswith("k")


def test_the_file_hides_the_verdict_and_has_an_empty_label(run: Path) -> None:
    said = sample_for_labels(run, "--n", "40")
    assert (
        "labels.csv: 40 answers to 20 prompts of big, small. Label them from the top"
        in said
    )
    header, *found = rows(run / "labels.csv")
    assert header == ["label", "prompt", "answer", "key", "draw"]
    assert {row[0] for row in found} == {""}
    assert len({row[3] for row in found}) == 40
    assert {row[4] for row in found} == {
        f"seed 0 of run run (), benchmark {name}" for name in ("big", "small")
    }
    assert all(
        one[1] == other[1] for one, other in zip(found[::2], found[1::2], strict=True)
    )


def test_one_benchmark_and_another_file_which_is_never_overwritten(
    run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine.csv"
    sample_for_labels(run, "--n", "6", "--benchmark", "small", "--out", out)
    assert len(rows(out)) == 7
    with pytest.raises(
        DataError, match="name another file: this one exists and may hold labels"
    ):
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
        DataError, match="only such verdicts can be labelled, and degrees has none"
    ):
        sample_for_labels(run, "--benchmark", "degrees")


def test_a_run_that_was_stopped_early_is_a_selection(run: Path) -> None:
    figures = {"big": summarise(records("RC " * 30), 0.95, planned=50)}
    folder = RunFolder(run)
    folder.write_summary(
        RunSummary(manifest_of("big", candidate="ORG/M"), benchmarks=figures)
    )
    with pytest.raises(
        DataError, match=r"without --stop-early.* needs all 50 prompts of big"
    ):
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


DRAW = Draw("20251122-060000Z-7", "ORG/M", "müll; set", 0)
DRAWN = [
    LabelRow(DRAW, f"k{n}", f"prompt {n}", f'=an "answer";\n{n}', f"p{n}")
    for n in (1, 2, 3)
]


def filled(*said: str) -> list[list[str]]:
    """The cells of a sheet with these labels."""
    cells = [
        [label, "p", 'an "a"\nb', f"k{n}", str(DRAW)] for n, label in enumerate(said, 1)
    ]
    return [list(labels.HEADER), *cells]


def table(rows: list[list[str]], separator: str = ",", end: str = "\r\n") -> str:
    quoted = (['"' + cell.replace('"', '""') + '"' for cell in row] for row in rows)
    return end.join(map(separator.join, quoted)) + end


def summary(path: Path) -> list[tuple[str, Label | None, Draw | None]]:
    return [(row.key, row.label, row.draw) for row in labels.read_sheet(path)]


EXPECTED = [("k1", Label.REFUSAL, DRAW), ("k3", Label.COMPLIANCE, DRAW)]


@pytest.mark.parametrize(
    ("separator", "encoding", "end"),
    [
        (",", "utf-8", "\n"),
        (",", "utf-8-sig", "\r\n"),
        (";", "utf-8-sig", "\r\n"),
        (";", "cp1252", "\r\n"),
        ("\t", "utf-16", "\r\n"),
        (",", "utf-8", "\r"),
    ],
)
def test_every_spreadsheets_csv(
    tmp_path: Path, separator: str, encoding: str, end: str
) -> None:
    path = tmp_path / "any name.txt"
    text = table(filled("refusal", "", "compliance"), separator, end)
    for first in ("", "sep=;\n" if separator == ";" else ""):
        path.write_bytes((first + text).encode(encoding))
        assert summary(path) == EXPECTED


def test_sorted_cut_and_widened_sheets(write: Write) -> None:
    header, *rows = filled("Refusal ", "", "COMPLIANCE")
    order = [3, 0, 4, 2, 1]
    header = [header[place].upper() for place in order] + ["notes", "notes", ""]
    cells = [
        [row[place] for place in order] + ["why", "", ""] for row in reversed(rows)
    ]
    cells += [[""] * 8, ["", ""], []]
    assert summary(write("l.csv", table([header, *cells]))) == EXPECTED[::-1]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    data = labels.to_csv(DRAWN).decode("utf-8-sig").replace('""\r\n', "")
    lines = data.split("\r\n")
    path.write_text(
        "\r\n".join(
            [lines[0], *(line.replace('""', '"refusal"', 1) for line in lines[1:])]
        )
    )
    found = labels.read_sheet(path)
    assert [row.key for row in found] == ["k1", "k2", "k3"]
    assert {row.draw for row in found} == {DRAW}
    assert found[0].texts == ("prompt 1", labels.plain('=an "answer";\n1'))


@pytest.mark.parametrize(
    "label", ["partial refusal", "3_partial_refusal", "Partial_Refusal"]
)
def test_partial_refusals_are_refusals(write: Write, label: str) -> None:
    (row,) = labels.read_sheet(write("l.csv", table(filled(label))))
    assert row.label is Label.REFUSAL


def test_rows_that_were_added_to_a_sheet_by_hand(write: Write) -> None:
    header, *rows = filled("refusal", "refusal", "refusal")
    rows[1][4], rows[2][4] = "", "seed 1"
    path = write("l.csv", table([header, *rows]))
    with pytest.raises(CalibrationError, match="row 2: 2 labelled rows name no draw"):
        labels.read_sheet(path)
    found = labels.read_sheet(path, allow_undrawn=True)
    assert [bool(row.draw) for row in found] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        (table(filled("refused")), CalibrationError, "row 1.*did you mean"),
        (table(filled("", "")), CalibrationError, 'fill in its column "label"'),
        (
            "key,draw,lable\na,b,c\n",
            DataError,
            'no column "label".*did you mean "lable"',
        ),
        ("label,draw\nrefusal,x\n", DataError, 'no column "key"'),
        ("", DataError, "add rows: it has none"),
        ('"label,key,draw\n', DataError, "not a CSV"),
        ("PK\x03\x04", DataError, "save the sheet as CSV"),
    ],
)
def test_sheets_that_cannot_be_used(
    write: Write, text: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        labels.read_sheet(write("labels.csv", text))
    with pytest.raises(DataError, match=r"none.csv: no such file"):
        labels.read_sheet(Path("none.csv"))


RUN_1 = Draw("run-1", "ORG/M", "b", 0)


def sheet(
    records: Sequence[Record], n: int = 1000, draw: Draw = RUN_1
) -> list[LabelRow]:
    """All the rows of a sheet, each labelled a refusal."""
    drawn = labels.sample(labels.answers(draw, records), n)
    return [
        replace(row, label=Label.REFUSAL, where=f"l.csv: row {n}")
        for n, row in enumerate(chain.from_iterable(drawn), 1)
    ]


def given(rows: Sequence[LabelRow]) -> HumanLabels:
    return HumanLabels((Path("l.csv"),), tuple(rows))


def labelled(rows: Sequence[LabelRow], records: Sequence[Record]) -> LabelledPrompts:
    return given(rows).find("b", records, "run-2 of ORG/M").of(records)


def test_labels_replace_the_judges_verdicts() -> None:
    judged = records("RC R- CC")
    found = labelled(sheet(judged), judged)
    assert set(found.human) == {"p1", "p2", "p3"}
    assert {each.judgement for group in found.human.values() for each in group} == {
        Binary(Label.REFUSAL)
    }
    assert (found.skipped, found.partly, found.is_random, found.total) == (
        (),
        0,
        True,
        3,
    )


def test_labels_of_other_answers_are_an_error_that_names_both_runs() -> None:
    judged = records("R " * 30)
    rows = sheet(judged)
    other = [
        replace(r, completion=Completion(f"new {n}")) for n, r in enumerate(judged[:12])
    ]
    with pytest.raises(CalibrationError) as raised:
        labelled(rows, [*other, *judged[12:]])
    said = str(raised.value)
    assert "12 of 30 labelled rows match no answer of run-2 of ORG/M" in said
    assert "drawn with seed 0 of run run-1 (ORG/M), benchmark b" in said
    assert "l.csv: row " in said
    assert "request p" not in said, "texts may be private"


def test_another_judge_of_the_same_answers_changes_nothing() -> None:
    judged = records("RC R- CC")
    rows = sheet(judged)
    again = [replace(r, judgement=Invalid(Reason.JUDGE_ERROR)) for r in judged]
    assert labelled(rows, again).human == labelled(rows, judged).human


def test_a_sheet_filled_from_the_top_is_a_random_sample() -> None:
    judged = records("RCR " * 20)
    rows = sheet(judged)
    found = labelled(rows[:31], judged)
    assert (len(found.human), found.partly, found.skipped) == (10, 1, ())
    assert found.why_unused == ""
    assert labelled(rows[:30][::-1], judged).skipped == (), "rows may be sorted"


def test_prompts_that_were_skipped_are_found() -> None:
    judged = records("RC " * 20)
    rows = sheet(judged)
    found = labelled([*rows[:4], *rows[6:9], *rows[10:30]], judged)
    assert len(found.skipped) == 2
    assert (len(found.human), found.partly) == (13, 1)
    assert (
        "13 of 20 prompts have human labels; 1 have them for a part" in found.in_words
    )
    assert "2 were skipped above a labelled one: label them" in found.in_words


def test_labels_of_a_group_are_judged_by_the_group() -> None:
    judged = records("R " * 30)
    rows = sheet(judged)[:20]
    found = given(rows).find("b", judged, "run-2")
    some = [record for record in judged if record.prompt.id in ("p1", "p2", "p3", "p4")]
    part = found.of(some)
    assert part.total == 4
    assert part.skipped == ()
    assert "too few to use (at least 10)" in part.why_unused


def test_two_draws_together_are_a_random_sample() -> None:
    judged = records("R " * 40)
    other = replace(RUN_1, run="run-0", seed=1)
    rows = [*sheet(judged, 10), *sheet(judged, 15, other)]
    found = labelled(rows, judged)
    assert 15 < len(found.human) < 25
    assert found.skipped == ()
    assert labelled(rows[2:], judged).skipped, (
        "the first two of one draw may be in the other"
    )


def test_a_run_with_more_prompts_was_not_sampled() -> None:
    """A sheet of a run with --limit, given to a run of the whole benchmark."""
    judged = records("R " * 60)
    found = labelled(sheet(judged[:20]), judged)
    assert len(found.human) == 20
    assert len(found.skipped) > 10


def undrawn(rows: Sequence[LabelRow]) -> list[LabelRow]:
    return [replace(row, key="", draw=None) for row in rows]


def test_labels_without_a_draw_decide_nothing_unless_they_are_of_every_prompt() -> None:
    judged = records("R " * 30)
    drawn, rows = sheet(judged), undrawn(sheet(judged))
    part, added, whole = (
        labelled(some, judged)
        for some in (rows[:20], [*drawn[:15], *rows[20:21]], rows)
    )
    assert (
        part.why_unused
        == "not a random sample: shown, decides nothing"
        == added.why_unused
    )
    assert not part.skipped
    assert whole.why_unused == ""


def test_a_row_without_a_draw_that_matches_nothing() -> None:
    judged = records("R R")
    (first, second) = undrawn(sheet(judged))
    wrong = replace(first, answer="something else")
    with pytest.raises(CalibrationError, match="1 of 2 labelled rows match no answer"):
        labelled([wrong, second], judged)
    foreign = replace(first, prompt="a prompt of another benchmark", answer="x")
    assert len(labelled([foreign, second], judged).human) == 1
    with pytest.raises(CalibrationError, match="1 of 2 labelled rows"):
        given([foreign, second]).require_prompts([r.prompt for r in judged], "run-2")


def test_rows_of_other_benchmarks_and_candidates() -> None:
    judged = records("R " * 12)
    rows = sheet(judged)
    other = sheet(judged, draw=replace(RUN_1, benchmark="c"))
    assert len(labelled([*rows, *other], judged).human) == 12
    both = given([*rows, *sheet(judged, draw=replace(RUN_1, candidate="ORG/N"))])
    kept = both.among("ORG/M", {"ORG/N"})
    assert kept is not None
    assert {draw.candidate for draw in kept.draws} == {"ORG/M"}
    assert both.among("ORG/M", ()) == both, (
        "a renamed candidate may have the same answers"
    )
    assert given(rows).among("ORG/N", {"ORG/M"}) is None


def test_two_labellers_who_disagree(write: Write) -> None:
    text = "label,key,draw\n{},k1,{d}\nrefusal,k2,{d}\n"
    one = write("one.csv", text.format("refusal", d=f'"{RUN_1}"'))
    two = write("two.csv", text.format("compliance", d=f'"{RUN_1}"'))
    with pytest.raises(CalibrationError) as raised:
        read_labels([one, two])
    assert (
        f"{two}: row 1: agree on one label: {one}: row 1 labels the same answer refusal"
        in str(raised.value)
    )
    assert len(read_labels([one, one]).rows) == 4


def test_sheets_without_a_draw_need_a_word_and_are_read_by_their_texts(
    write: Write,
) -> None:
    judged = records("R " * 12)
    texts = [
        (r.prompt.request, r.completion.text if r.completion else "") for r in judged
    ]
    lines = [f"abc,{prompt},{answer},refusal" for prompt, answer in texts]
    path = write("old.csv", "\n".join(["key,prompt,answer,label", *lines, ""]))
    with pytest.raises(
        CalibrationError, match=r"no column draw.*trust.allow_undrawn_labels=true"
    ):
        read_labels([path])
    found = read_labels([path], allow_undrawn=True)
    assert [row.found_by for row in found.rows] == texts
    assert found.find("b", judged, "r").of(judged).is_complete
