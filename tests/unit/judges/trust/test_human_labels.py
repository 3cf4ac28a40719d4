"""Labels that come back: whose answers they are of, what is missing, and what they may decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Invalid, Label, Reason
from refusal_checks.judges.trust import label_draw, label_sheet
from refusal_checks.judges.trust.human_labels import HumanLabels, LabelledPrompts, read_labels
from refusal_checks.judges.trust.label_draw import Draw
from refusal_checks.judges.trust.label_sheet import LabelledRow

Records = Callable[..., list[Record]]
Write = Callable[[str, str], Path]

DRAW = Draw("run-1", "ORG/M", "b", 0)


def sheet(records: Sequence[Record], n: int = 1000, draw: Draw = DRAW) -> list[LabelledRow]:
    """All the rows of a sheet, each labelled a refusal."""
    drawn = label_draw.sample({draw: label_draw.answers(draw.benchmark, records)}, n)
    found = (answer for _, group in drawn for answer in group)
    return [
        LabelledRow(f"l.csv: row {n}", Label.REFUSAL, each.key, draw, (each.prompt, each.answer))
        for n, each in enumerate(found, 1)
    ]


def labels(rows: Sequence[LabelledRow]) -> HumanLabels:
    return HumanLabels((Path("l.csv"),), tuple(rows))


def labelled(rows: Sequence[LabelledRow], records: Sequence[Record]) -> LabelledPrompts:
    return labels(rows).find("b", records, "run-2 of ORG/M").of(records)


def test_labels_replace_the_judges_verdicts(records: Records) -> None:
    judged = records("RC R- CC")
    found = labelled(sheet(judged), judged)
    assert set(found.human) == {"p1", "p2", "p3"}
    assert {each.judgement for group in found.human.values() for each in group} == {
        Binary(Label.REFUSAL)
    }
    assert (found.skipped, found.partly, found.is_random, found.total) == ((), 0, True, 3)


def test_labels_of_other_answers_are_an_error_that_names_both_runs(records: Records) -> None:
    judged = records("R " * 30)
    rows = sheet(judged)
    other = [replace(r, completion=Completion(f"new {n}")) for n, r in enumerate(judged[:12])]
    with pytest.raises(CalibrationError) as raised:
        labelled(rows, [*other, *judged[12:]])
    said = str(raised.value)
    assert "12 of 30 labelled rows match no answer of run-2 of ORG/M" in said
    assert "drawn with seed 0 of run run-1 (ORG/M), benchmark b" in said
    assert "l.csv: row " in said
    assert "request p" not in said, "texts may be private"


def test_another_judge_of_the_same_answers_changes_nothing(records: Records) -> None:
    judged = records("RC R- CC")
    rows = sheet(judged)
    again = [replace(r, judgement=Invalid(Reason.JUDGE_ERROR)) for r in judged]
    assert labelled(rows, again).human == labelled(rows, judged).human


def test_a_sheet_filled_from_the_top_is_a_random_sample(records: Records) -> None:
    judged = records("RCR " * 20)
    rows = sheet(judged)
    found = labelled(rows[:31], judged)
    assert (len(found.human), found.partly, found.skipped) == (10, 1, ())
    assert found.why_unused == ""
    assert labelled(rows[:30][::-1], judged).skipped == (), "rows may be sorted"


def test_prompts_that_were_skipped_are_found(records: Records) -> None:
    judged = records("RC " * 20)
    rows = sheet(judged)
    found = labelled([*rows[:4], *rows[6:9], *rows[10:30]], judged)
    assert len(found.skipped) == 2
    assert (len(found.human), found.partly) == (13, 1)
    assert "13 of 20 prompts have human labels; 1 have them for a part" in found.in_words
    assert "2 were skipped above a labelled one: label them" in found.in_words


def test_labels_of_a_group_are_judged_by_the_group(records: Records) -> None:
    judged = records("R " * 30)
    rows = sheet(judged)[:20]
    found = labels(rows).find("b", judged, "run-2")
    some = [record for record in judged if record.prompt.id in ("p1", "p2", "p3", "p4")]
    part = found.of(some)
    assert part.total == 4
    assert part.skipped == ()
    assert "too few to use (at least 10)" in part.why_unused


def test_two_draws_together_are_a_random_sample(records: Records) -> None:
    judged = records("R " * 40)
    other = replace(DRAW, run="run-0", seed=1)
    rows = [*sheet(judged, 10), *sheet(judged, 15, other)]
    found = labelled(rows, judged)
    assert 15 < len(found.human) < 25
    assert found.skipped == ()
    assert labelled(rows[2:], judged).skipped, "the first two of one draw may be in the other"


def test_a_run_with_more_prompts_was_not_sampled(records: Records) -> None:
    """A sheet of a run with --limit, given to a run of the whole benchmark."""
    judged = records("R " * 60)
    found = labelled(sheet(judged[:20]), judged)
    assert len(found.human) == 20
    assert len(found.skipped) > 10


def undrawn(rows: Sequence[LabelledRow]) -> list[LabelledRow]:
    return [replace(row, key="", draw=None) for row in rows]


def test_labels_without_a_draw_decide_nothing_unless_they_are_of_every_prompt(
    records: Records,
) -> None:
    judged = records("R " * 30)
    rows = undrawn(sheet(judged))
    part, whole = labelled(rows[:20], judged), labelled(rows, judged)
    assert part.why_unused == "not a random sample: shown, decides nothing"
    assert not part.skipped
    assert whole.why_unused == ""


def test_a_row_added_to_a_drawn_sheet_spoils_it(records: Records) -> None:
    judged = records("R " * 30)
    rows = sheet(judged)
    found = labelled([*rows[:15], *undrawn(rows[20:21])], judged)
    assert found.why_unused.startswith("not a random sample")


def test_a_row_without_a_draw_that_matches_nothing(records: Records) -> None:
    judged = records("R R")
    (first, second) = undrawn(sheet(judged))
    wrong = replace(first, texts=(first.texts[0], "something else"))
    with pytest.raises(CalibrationError, match="1 of 2 labelled rows match no answer"):
        labelled([wrong, second], judged)
    foreign = replace(first, texts=("a prompt of another benchmark", "x"))
    assert len(labelled([foreign, second], judged).human) == 1
    with pytest.raises(CalibrationError, match="1 of 2 labelled rows"):
        labels([foreign, second]).require_prompts([r.prompt for r in judged], "run-2")


def test_rows_of_other_benchmarks_and_candidates(records: Records) -> None:
    judged = records("R " * 12)
    rows = sheet(judged)
    other = sheet(judged, draw=replace(DRAW, benchmark="c"))
    assert len(labelled([*rows, *other], judged).human) == 12
    both = labels([*rows, *sheet(judged, draw=replace(DRAW, candidate="ORG/N"))])
    kept = both.among("ORG/M", {"ORG/N"})
    assert kept is not None
    assert {draw.candidate for draw in kept.draws} == {"ORG/M"}
    assert both.among("ORG/M", ()) == both, "a renamed candidate may have the same answers"
    assert labels(rows).among("ORG/N", {"ORG/M"}) is None


def test_two_labellers_who_disagree(write: Write) -> None:
    text = "label,key,draw\n{},k1,{d}\nrefusal,k2,{d}\n"
    one = write("one.csv", text.format("refusal", d=f'"{DRAW}"'))
    two = write("two.csv", text.format("compliance", d=f'"{DRAW}"'))
    with pytest.raises(CalibrationError) as raised:
        read_labels([one, two])
    assert f"{two}: row 1: agree on one label: {one}: row 1 labels the same answer refusal" in str(
        raised.value
    )
    assert len(read_labels([one, one]).rows) == 4


def test_old_sheets_are_read_by_their_texts(write: Write, records: Records) -> None:
    judged = records("R " * 12)
    lines = [
        f"abc{n},{r.prompt.request},{r.completion and r.completion.text},refusal"
        for n, r in enumerate(judged)
    ]
    path = write("old.csv", "\n".join(["key,prompt,answer,label", *lines, ""]))
    with pytest.raises(CalibrationError, match="no column draw"):
        read_labels([path])
    found = read_labels([path], allow_undrawn=True).find("b", judged, "r").of(judged)
    assert found.is_complete
    assert label_sheet.HEADER[0] == "label"
