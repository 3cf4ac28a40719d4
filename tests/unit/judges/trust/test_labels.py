"""Labels that people gave: sheets as spreadsheets save them, and what labels may decide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.core.errors import DataError, LabelError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Label, PartialCount
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.rates import Evidence
from refusal_checks.judges.trust import draws, labels
from refusal_checks.judges.trust.draws import Draw, LabelRow
from refusal_checks.judges.trust.label_checks import LabelCheck, require_agreement
from refusal_checks.judges.trust.labels import (
    HumanLabels,
    LabelledPrompts,
    SheetRow,
    read_labels,
)
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import wilson
from tests.unit.conftest import Write, records

REFUSES, COMPLIES = Binary(Label.REFUSAL), Binary(Label.COMPLIANCE)
RUN_1 = Draw("run-1", "ORG/M", "b", 0)
DRAW = Draw("20251122-060000Z-7", "ORG/M", "müll; set", 0)


def filled(*labels: str) -> list[list[str]]:
    """The cells of a sheet with these labels."""
    cells = [
        [label, "p", 'a "q"\nb', f"k{n}", str(DRAW)]
        for n, label in enumerate(labels, 1)
    ]
    return [list(draws.HEADER), *cells]


def table(rows: list[list[str]], separator: str = ",", end: str = "\r\n") -> str:
    quoted = (['"' + cell.replace('"', '""') + '"' for cell in row] for row in rows)
    return end.join(map(separator.join, quoted)) + end


def summary(path: Path) -> list[tuple[str, str, Draw | None]]:
    return [(row.key, row.label.verdict, row.draw) for row in labels.read_sheet(path)]


EXPECTED = [("k1", "refusal", DRAW), ("k3", "compliance", DRAW)]


@pytest.mark.parametrize(
    ("separator", "encoding", "end"),
    [
        (",", "utf-8", "\n"),
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


def test_a_sheet_may_be_sorted_have_more_columns_and_other_cases(write: Write) -> None:
    header, *rows = filled("Refusal ", "", "COMPLIANCE")
    order = [3, 0, 4, 2, 1]
    header = [header[place].upper() for place in order] + ["notes", "notes", ""]
    cells = [
        [row[place] for place in order] + ["why", "", ""] for row in reversed(rows)
    ]
    cells += [[""] * 8, ["", ""], []]
    assert summary(write("l.csv", table([header, *cells]))) == EXPECTED[::-1]


def test_a_drawn_sheet_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    written = LabelRow(DRAW, "k1", "prompt", '=an "answer";\n1', "p1")
    text = draws.to_csv([written]).decode("utf-8-sig")
    path.write_text(text.replace('\r\n""', '\r\n"refusal"'))
    (row,) = labels.read_sheet(path)
    assert (row.key, row.draw) == ("k1", DRAW)
    assert row.texts == ("prompt", draws.plain(written.answer))


def test_rows_that_were_added_to_a_sheet_by_hand(write: Write) -> None:
    header, *rows = filled(*["refusal"] * 4)
    rows[1][4], rows[2][4] = "", "seed 1"
    rows[3][3] = ""  # a draw, but no key
    path = write("l.csv", table([header, *rows]))
    with pytest.raises(LabelError, match="row 2: 3 labelled rows name no draw"):
        labels.read_sheet(path)
    read = labels.read_sheet(path, allow_undrawn=True)
    assert [bool(row.draw) for row in read] == [True, False, False, False]
    path = write("old.csv", "key,prompt,answer,label\nabc,p,so,refusal\n")
    why = r"no column draw.*trust.allow_undrawn_labels=true"
    with pytest.raises(LabelError, match=why):
        read_labels([path])
    (row,) = read_labels([path], allow_undrawn=True).rows
    assert row.found_by == ("p", "so"), "keys of another draw tell nothing"


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        (table(filled("refused")), LabelError, "row 1.*did you mean"),
        (table(filled("", "")), LabelError, 'fill in its column "label"'),
        (
            "key,draw,lable\na,b,c\n",
            DataError,
            'no column "label".*did you mean "lable"',
        ),
        ("label,draw\nrefusal,x\n", DataError, 'no column "key"'),
        ("", DataError, "add rows: it has none"),
        ('"label,key,draw\n', DataError, "not valid CSV"),
        ("PK\x03\x04", DataError, "save the sheet as CSV"),
    ],
)
def test_sheets_that_cannot_be_used(
    write: Write, text: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        labels.read_sheet(write("labels.csv", text))


def sheet(
    records: Sequence[Record], n: int = 1000, draw: Draw = RUN_1
) -> list[SheetRow]:
    """All the rows of a sheet, each labelled a refusal."""
    drawn = draws.sample(draws.answers(draw, records), n)
    return [
        labelled_row(row, REFUSES, f"l.csv: row {n}") for n, row in enumerate(drawn, 1)
    ]


def labelled_row(row: LabelRow, label: Binary, where: str) -> SheetRow:
    return SheetRow(row.draw, row.key, (row.prompt, row.answer), label, where)


def given(rows: Sequence[SheetRow]) -> HumanLabels:
    return HumanLabels((Path("l.csv"),), tuple(rows))


def labelled(rows: Sequence[SheetRow], records: Sequence[Record]) -> LabelledPrompts:
    return given(rows).find("b", records, "run-2 of ORG/M").of(records)


def test_labels_replace_the_judges_verdicts() -> None:
    judged = records("RC R- CC")
    found = labelled(sheet(judged), judged)
    assert set(found.human) == {"p1", "p2", "p3"}
    answers = [record.judgement for group in found.human.values() for record in group]
    assert answers == [Binary(Label.REFUSAL)] * 3, "of one answer each"
    assert (found.skipped, found.total) == ((), 3)
    assert found.is_random
    assert not found.is_complete


def test_single_answers_stand_for_a_prompt_in_figures_that_are_means_over_answers() -> (
    None
):
    several, single = records("RC " * 20), records("R " * 20)
    for judged, metric, scored in (
        (several, "rejection_rate", 20),
        (several, "mean_refusal_confidence", 0),
        (single, "mean_refusal_confidence", 20),
    ):
        found = given(sheet(judged)).find("b", judged, "run-2")
        assert len(found.scores(METRICS[metric], judged)) == scored
        gate = Gate("b", metric, minimum=0.5)
        *_, view = Evidence(labels=found).rate(gate, judged).views
        assert (view.use == "human") == bool(scored), view.note
        assert scored or "this figure needs all answers to a prompt" in view.note


TWENTY = records("RC " * 20)


@pytest.mark.parametrize(
    ("rows", "prompts", "skipped"),
    [
        (slice(10), 10, 0),
        (slice(9, None, -1), 10, 0),  # sorted afterwards
        ([*range(2), 3, *range(5, 15)], 13, 2),
    ],
)
def test_a_sheet_filled_from_the_top_is_a_random_sample_and_skipped_prompts_are_found(
    rows: slice | list[int], prompts: int, skipped: int
) -> None:
    every = sheet(TWENTY)
    chosen = every[rows] if isinstance(rows, slice) else [every[n] for n in rows]
    found = labelled(chosen, TWENTY)
    assert (len(found.human), len(found.skipped)) == (prompts, skipped)
    if not skipped:
        assert found.why_unused == ""
        return
    words = "13 of 20 prompts are labelled (labelled_by does not say by whom)"
    assert words in found.in_words
    assert "2 were skipped above a labelled one: label them" in found.in_words


def test_a_run_with_more_prompts_was_not_sampled() -> None:
    """A sheet of a run with --limit, given to a run of the whole benchmark."""
    judged = records("R " * 60)
    found = labelled(sheet(judged[:20]), judged)
    assert len(found.human) == 20
    assert len(found.skipped) > 10


def test_labels_of_a_group_are_judged_by_the_group() -> None:
    judged = records("R " * 30)
    found = given(sheet(judged)).find("b", judged, "run-2")
    part = found.of(judged[:9])
    assert (part.total, part.skipped) == (9, ())
    assert "too few to use (at least 10)" in part.why_unused
    assert found.of(judged[:10]).why_unused == ""


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


def undrawn(rows: Sequence[SheetRow]) -> list[SheetRow]:
    return [replace(row, key="", draw=None) for row in rows]


def test_labels_without_a_draw_decide_nothing_unless_they_are_of_every_prompt() -> None:
    judged = records("R " * 30)
    drawn, rows = sheet(judged), undrawn(sheet(judged))
    for some in (rows[:20], [*drawn[:15], *rows[20:21]]):
        part = labelled(some, judged)
        assert part.why_unused == "not a random sample: shown, decides nothing"
        assert not part.skipped
    assert labelled(rows, judged).why_unused == ""


def test_a_row_without_a_draw_that_matches_nothing() -> None:
    judged = records("R R")
    (first, second) = undrawn(sheet(judged))
    wrong = replace(first, texts=(first.texts[0], "something else"))
    why = "1 of 2 labelled rows match no answer of run-2"
    with pytest.raises(LabelError, match=why) as raised:
        labelled([wrong, second], judged)
    assert "request p" not in str(raised.value), "texts may be private"
    foreign = replace(first, texts=("a prompt of another benchmark", "x"))
    assert len(labelled([foreign, second], judged).human) == 1
    with pytest.raises(LabelError, match="1 of 2 labelled rows"):
        given([foreign, second]).require_prompts([r.prompt for r in judged], "run-2")


def test_rows_of_other_benchmarks() -> None:
    judged = records("R " * 12)
    rows = sheet(judged)
    other = sheet(judged, draw=replace(RUN_1, benchmark="c"))
    assert len(labelled([*rows, *other], judged).human) == 12


def test_two_labellers_who_disagree(write: Write) -> None:
    text = "label,key,draw\n{},k1,{d}\nrefusal,k2,{d}\n"
    one = write("one.csv", text.format("refusal", d=f'"{RUN_1}"'))
    two = write("two.csv", text.format("compliance", d=f'"{RUN_1}"'))
    why = (
        f"{two}: row 1: give each answer one label. This row says compliance, and {one}: row 1 "
        "says refusal of the same answer."
    )
    with pytest.raises(LabelError, match=re.escape(why)):
        read_labels([one, two])
    assert len(read_labels([one, one]).rows) == 4


@pytest.mark.parametrize(
    ("partial", "others"),
    [
        ("refusal", ["compliance"]),
        ("compliance", ["refusal"]),
        ("own", ["refusal", "compliance"]),  # what it counts as depends on the prompt
    ],
)
def test_a_partial_refusal_contradicts_what_it_does_not_count_as(
    write: Write, partial: PartialCount, others: list[str]
) -> None:
    text = f'label,key,draw\n{{}},k1,"{RUN_1}"\n'
    one = write("one.csv", text.format("partial_refusal"))
    contradicting = []
    for label in ("refusal", "compliance"):
        two = write(f"{label}.csv", text.format(label))
        try:
            read_labels([one, two], partial=partial)
        except LabelError:
            contradicting.append(label)
    assert contradicting == others


def refused(verdicts: str) -> list[Record]:
    """Records of prompts that must be refused."""
    return [
        replace(record, prompt=replace(record.prompt, kind=Kind.SAFETY))
        for record in records(verdicts)
    ]


REFUSED = replace(RUN_1, of="refusals")


def test_labels_of_refusals_say_how_many_are_some_and_no_rate() -> None:
    """One of the first ten is labelled compliance, the third left out, the others not reached."""
    judged = refused("RC " * 30 + "CC " * 9)
    drawn = draws.sample_refusals(
        draws.answers(REFUSED, draws.counted_as_refused(judged)), 20
    )
    rows = [
        labelled_row(row, COMPLIES if place == 5 else REFUSES, "l.csv")
        for place, row in enumerate(drawn[:11])
        if place != 2
    ]
    found = given(rows).find("b", judged, "run-2")
    (check,) = found.checks(judged)
    assert check == LabelCheck("refusals", labelled=10, contradicted=1, skipped=1)
    agreed = check.agreement()
    assert agreed.value == 0.9
    assert agreed.lower == wilson(9 / 11, 11).lower
    assert agreed.upper == wilson(10 / 11, 11).upper
    assert not found.labels, "they are no sample of all answers"
    assert found.of(judged).why_unused.startswith("labels of 0 prompts: too few")


@pytest.mark.parametrize(
    ("labels", "verdicts", "words"),
    [
        ("RRRRRRRRRR", "RRRRRRRRRR", ""),
        ("RRRRRCCCCC", "RRRRRRRRRR", ""),  # half: not most
        ("RRRRCCCCCC", "RRRRRRRRRR", "are the labels swapped[?] 6 of 10 say"),
        ("CCCCCRRRRR", "RRRRRCCCCC", "10 of 10 say the opposite of the judge"),
        ("CCCCCCCCC", "RRRRRRRRR", ""),  # nine labels are too few
    ],
)
def test_labels_that_contradict_most_verdicts_are_a_fault(
    labels: str, verdicts: str, words: str
) -> None:
    judged = records(" ".join(verdicts))
    meaning = {"R": REFUSES, "C": COMPLIES}
    by_prompt = {f"request p{n}": meaning[label] for n, label in enumerate(labels, 1)}
    rows = [replace(row, label=by_prompt[row.texts[0]]) for row in sheet(judged)]
    checks = given(rows).find("b", judged, "run-2").checks(judged)
    if not words:
        require_agreement("l.csv", checks)
        return
    with pytest.raises(LabelError, match=words):
        require_agreement("l.csv", checks)
