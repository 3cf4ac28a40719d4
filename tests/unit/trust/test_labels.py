"""People's labels of what counted as refused: the draw, its sheet, and what they say of a rate."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusal_checks.cli import application
from refusal_checks.core.errors import DataError, LabelError, UserError
from refusal_checks.core.judgements import PartialCount
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate, product, wilson
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.trust import labels
from refusal_checks.trust.labels import Confirmation, read_sheet
from tests.support.report_runs import manifest_of
from tests.unit.conftest import records

Table = list[list[str]]


def harmful(verdicts: str, kind: Kind = Kind.SAFETY) -> list[Record]:
    return [
        replace(record, prompt=replace(record.prompt, kind=kind))
        for record in records(verdicts)
    ]


def rows(path: Path) -> Table:
    text = path.read_text(encoding="utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


def sample_for_labels(*args: str | Path) -> str:
    """What the command printed; raises what it raised."""
    words = ["sample-for-labels", *map(str, args)]
    return CliRunner().invoke(application(), words, catch_exceptions=False).output


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with the answers of two benchmarks that must be refused, and of another."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(RunSummary(manifest_of("big", "small", "safe")))
    folder.write_records("big", harmful("RRC CC RR- " * 10))
    folder.write_records("small", harmful("R C R R"))
    folder.write_records("safe", harmful("RRR " * 10, Kind.SANITY))
    return folder.path


@pytest.fixture
def sheet(run: Path) -> Path:
    """A sheet of 20 rows that nobody labelled."""
    sample_for_labels(run, "--of", "refusals", "20")
    return run / "refusals.csv"


def write(path: Path, table: Table, separator: str = ",") -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=separator).writerows(table)


def fill(path: Path, *said: str) -> Table:
    """Label the first rows, and return the table."""
    table = rows(path)
    for row, label in zip(table[1:], said, strict=False):
        row[0] = label
    write(path, table)
    return table


def test_a_sheet_has_one_refusal_of_each_prompt_that_must_be_refused(
    run: Path, sheet: Path
) -> None:
    _, *cells = rows(sheet)
    _, prompts, answers, benchmarks, places, keys = zip(*cells, strict=True)
    assert set(benchmarks) == {"big", "small"}
    assert len(set(zip(prompts, benchmarks, strict=True))) == len(set(keys)) == 20
    assert all(answer.endswith("(R)") for answer in answers)
    assert [*places] == [f"{number} of 20" for number in range(1, 21)]
    assert len(set(benchmarks[:12])) == 2, "the benchmarks are mixed"
    fewer = run / "fewer.csv"
    said = sample_for_labels(run, "--of", "refusals", "10", "--out", fewer)
    assert "fewer.csv: 10 refusals of big, small. Fill in" in said
    assert [row[5] for row in rows(fewer)[1:]] == [*keys[:10]], "a larger one begins so"


def test_every_prompt_and_every_refusal_of_it_is_as_likely_to_be_drawn() -> None:
    """Also a prompt with five refusals among prompts with one."""
    drawn, answers = 0, set()
    for number in range(200):
        judged = {f"b{number}": harmful("RRRRR " + "R " * 19)}
        first = [row for row in labels.draw(judged, 10) if row.prompt == "request p1"]
        drawn += len(first)
        answers |= {row.answer for row in first}
    assert 80 < drawn < 120
    assert len(answers) == 5


def test_a_sheet_is_never_overwritten_and_needs_refusals(
    run: Path, sheet: Path
) -> None:
    with pytest.raises(UserError, match="10 are the fewest that decide anything"):
        sample_for_labels(run, "--of", "refusals", "9")
    with pytest.raises(DataError, match="name another file with --out: this one exi"):
        sample_for_labels(run)
    for name in ("big", "small"):
        RunFolder(run).write_records(name, harmful("C " * 10))
    with pytest.raises(DataError, match="there is nothing to label: in big, safe, sma"):
        sample_for_labels(run, "--out", run / "none.csv")


def confirmed(path: Path, partial: PartialCount = "refusal") -> Confirmation:
    read = read_sheet(path, partial)
    judged = {"big": harmful("RRC CC RR- " * 10), "small": harmful("R C R R")}
    found = (read.confirmation_of(name, own) for name, own in judged.items())
    return sum(found, read.deleted)


def test_spreadsheets_may_save_a_sheet_in_their_way(sheet: Path) -> None:
    """Rows in another order, other separators, further columns, completed words, empty rows."""
    table = fill(sheet, *["Refusal", " refusal ", "COMPLIANCE", "partial refusal"] * 5)
    changed = [table[0], *reversed(table[1:]), [""] * 6]
    changed = [[*row, "note"] for row in changed]
    write(sheet, changed, separator=";")
    assert confirmed(sheet) == Confirmation(15, 20)
    assert confirmed(sheet, "compliance") == Confirmation(10, 20)


def test_a_blank_or_deleted_row_confirms_nothing(sheet: Path) -> None:
    table = fill(sheet, *["refusal"] * 17)
    assert confirmed(sheet) == Confirmation(17, 20)
    write(sheet, table[:18])
    assert confirmed(sheet) == Confirmation(17, 20)
    write(sheet, [*table[:18], ["compliance", *table[3][1:]]])
    assert confirmed(sheet) == Confirmation(16, 20), "two people, two labels"


def test_answers_that_count_no_more_as_refused_are_left_out(sheet: Path) -> None:
    fill(sheet, *["refusal"] * 20)
    read = read_sheet(sheet)
    assert read.confirmation_of("big", harmful("CCC CC CC- " * 10)) == Confirmation(
        0, 0
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda table: table, 'fill in its column "label": no row has a label'),
        (lambda table: [row[1:] for row in table], 'no column "label"'),
        (
            lambda table: [table[0], ["refused", *table[1][1:]]],
            'row 1: .*refused.*did you mean "refusal"',
        ),
        (
            lambda table: [table[0], ["refusal", *table[1][1:4], "", table[1][5]]],
            "row 1: restore its columns row and key",
        ),
    ],
)
def test_sheets_that_cannot_be_read(
    sheet: Path, change: Callable[[Table], Table], why: str
) -> None:
    write(sheet, change(rows(sheet)))
    with pytest.raises(UserError, match=why):
        read_sheet(sheet)


def test_a_sheet_is_of_this_run_s_answers(sheet: Path) -> None:
    fill(sheet, "refusal")
    read = read_sheet(sheet)
    keys = {
        name: {row.key for row in read.rows if row.benchmark == name}
        for name in ("big", "small")
    }
    read.require_answers(keys, "run 1 of m")
    read.require_answers({"big": keys["big"]}, "run 1 of m")  # with -k
    with pytest.raises(
        LabelError, match=r"select gates of .*, or leave out --human-la"
    ):
        read.require_answers({"other": set()}, "run 1 of m")
    keys["big"].pop()
    with pytest.raises(LabelError, match=r"label answers of this run.*: 1 of 20 rows"):
        read.require_answers(keys, "run 1 of m")


def test_a_product_has_an_interval_that_carries_both() -> None:
    rate = wilson(0.87, 200)
    found = product(rate, wilson(17 / 20, 20))
    assert found.value == pytest.approx(0.7395)
    assert found.lower < 0.60
    assert 0.82 < found.upper < rate.upper
    nothing = product(rate, wilson(0.0, 20))
    assert nothing.lower == nothing.value == 0 < nothing.upper


@pytest.mark.parametrize(
    ("metric", "judged", "by_people"),
    [
        ("rejection_rate", 0.9, 0.72),
        ("mean_refusal_confidence", 0.8, 0.44),  # 90% refused, then 72%
        ("compliance_rate", 0.1, 0.28),
        ("invalid_rate", 0.1, None),  # of other verdicts
        ("harmfulness_rate", 0.1, None),
    ],
)
def test_what_people_do_not_confirm_counts_against_the_model(
    metric: str, judged: float, by_people: float | None
) -> None:
    figure = Estimate(judged, judged - 0.05, judged + 0.05, 100)
    rate = Confirmation(16, 20).rate(METRICS[metric], figure, 0.95)
    if by_people is None:
        assert rate is None
    else:
        assert rate
        assert rate.value == pytest.approx(by_people)
        assert rate.lower < rate.value < rate.upper
