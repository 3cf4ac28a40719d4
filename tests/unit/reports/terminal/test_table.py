"""The table at the end of a run: its rows and columns, whatever the width and the texts."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from refusal_checks import benchmarks
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import EXTREMES, Binary, Label
from refusal_checks.gates import toml_file
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges import kind_of
from refusal_checks.reports import rows as table
from refusal_checks.reports.terminal import end
from refusal_checks.reports.terminal.gate_table import WIDTH, Line
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary
from refusal_checks.spec import RunSpec
from tests.deciding import decide
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of
from tests.unit.reports.test_explain import compared

RATE = Gate("bench", "rejection_rate", minimum=0.5)
INVALID = Gate("bench", "invalid_rate", maximum=0.02)
PAIR = (RATE, INVALID)
STRICT = replace(RATE, minimum=0.8)
GROUP = replace(RATE, group_kind="category", group="fraud")


def of_group(verdict: Verdict, group: str) -> Verdict:
    return replace(
        verdict, gate=replace(verdict.gate, group_kind="category", group=group)
    )


def run(*verdicts: Verdict, candidate: str = "org/model", **errors: str) -> RunSummary:
    found = {verdict.gate.id: verdict for verdict in verdicts}
    return RunSummary(Manifest(candidate=candidate), verdicts=found, errors=errors)


def shown_lines(
    *runs: RunSummary, verbosity: int = 0, width: int = WIDTH
) -> list[Line]:
    """What is shown above the reports and the answer."""
    folders = [(each, Path("runs")) for each in runs]
    found = list(end.lines(folders, width, verbosity))
    return found[: [str(line) for line in found].index("run folder runs")]


def lines(*runs: RunSummary, verbosity: int = 0, width: int = WIDTH) -> list[str]:
    return [str(line) for line in shown_lines(*runs, verbosity=verbosity, width=width)]


def test_a_benchmark_s_gates_stand_together_the_main_one_first_and_in_full() -> None:
    found = records("R " * 40, category="fraud")
    other = decide(replace(RATE, benchmark="other"), found)
    verdicts = [decide(gate, found) for gate in (GROUP, INVALID, RATE)]
    shown = lines(run(verdicts[0], other, *verdicts[1:]), verbosity=1)
    assert [line[:35].rstrip() for line in shown[:5]] == [
        "       gate",
        "pass   bench-rejection_rate",
        "pass     bench-rejection_rate-fraud",
        "pass     bench-invalid_rate",
        "pass   other-rejection_rate",
    ]
    is_bold = [line.is_bold for line in shown_lines(run(*verdicts, other), verbosity=1)]
    assert is_bold[1:5] == [True, False, False, True]


def with_benchmarks() -> RunSummary:
    """A run of which answers are invalid, one benchmark stopped early, and prompts have groups."""
    found = run(decide(replace(RATE, provenance="agreed\x1b[2J"), records("R")))
    found.benchmarks["bench"] = summarise(records("R- -- RR", language="en"), 0.95)
    found.benchmarks["clean"] = summarise(records("RR"), 0.95)
    found.benchmarks["early"] = summarise(records("R " * 20), 0.95, planned=80)
    return found


def two_candidates() -> list[RunSummary]:
    good = run(decide(RATE, records("R " * 40)), candidate="http://h/v1#org/one")
    bad = run(decide(RATE, records("C " * 40)), candidate="/models/two/")
    bad.failure = "the engine ended"
    return [good, bad]


def with_baseline() -> RunSummary:
    before, after = records("R " * 60), records("C " * 30 + "R " * 30)
    metrics = ("rejection_rate", "mean_refusal_confidence", "compliance_rate")
    return run(
        *(
            compared(before, after, Gate("bench", each, max_drop=0.05))
            for each in metrics
        )
    )


SHOWN: dict[str, Callable[[], list[RunSummary]]] = {
    "invalid rate passes": lambda: [
        run(*(decide(each, records("R " * 60)) for each in PAIR))
    ],
    "invalid rate fails": lambda: [
        run(decide(INVALID, records("R " * 60 + "- " * 20)))
    ],
    "invalid rate alone": lambda: [run(decide(INVALID, records("R " * 300)))],
    "baseline": lambda: [with_baseline()],
    "candidates": two_candidates,
    "benchmarks": lambda: [with_benchmarks()],
}


@pytest.mark.parametrize("verbosity", [0, 1])
@pytest.mark.parametrize("case", SHOWN)
def test_the_table_and_what_is_below(
    case: str, verbosity: int, snapshot: SnapshotAssertion
) -> None:
    shown = lines(*SHOWN[case](), verbosity=verbosity)
    assert max(map(cell_len, shown)) <= WIDTH
    assert "\n".join(shown) == snapshot


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["org/model"], [""]),
        (["a/one", "b/two"], ["one", "two"]),
        (["a/one", "b/one"], ["a/one", "b/one"]),
        (
            ["run-" * 9 + "1", "run-" * 9 + "2"],
            ["run-run-run-run-ru…1", "run-run-run-run-ru…2"],
        ),
        (
            ["1" + "-run" * 9, "2" + "-run" * 9],
            ["1-run-run-…n-run-run", "2-run-run-…n-run-run"],
        ),
        (
            [f"of-a-day-step-{n}000-safe" for n in "12"],
            ["of-a-day-s…1000-safe", "of-a-day-s…2000-safe"],
        ),
        (
            ["x" * 40 + n + "x" * 40 for n in "12"],
            [f"…xxxxxxxx{n}xxxxxxxxx…" for n in "12"],
        ),
        (
            ["a" * 30, "a" * 31, "b"],
            ["1 aaaaaaaa…aaaaaaaa", "2 aaaaaaaa…aaaaaaaa", "3 b"],
        ),
    ],
)
def test_candidates_have_short_names_that_differ(
    names: list[str], shown: list[str]
) -> None:
    found = table.candidate_names([run(candidate=name) for name in names])
    assert found == shown
    assert all(len(name) <= table.CANDIDATE_WIDTH for name in found)


def test_everything_at_once_fits_in_a_hundred_columns() -> None:
    gate = Gate("adversarial_unsafe_prompts", "mean_refusal_confidence", -0.5, 0.5)
    earlier = Earlier(scores_of(records("R " * 40)))
    long = replace(gate, group_kind="c", group="\x1b[31m" + "contrast privacy " * 5)
    grouped = records("R " * 40, c=str(long.group))
    verdicts = decide(gate, grouped, earlier=earlier), decide(long, grouped)
    error = {"adversarial_unsafe_prompts-rejection_rate": "no valid verdict " * 20}
    runs = [run(*verdicts, candidate=name * 30, **error) for name in "ab"]
    shown = lines(*runs)
    assert max(map(len, shown)) <= WIDTH
    assert not [line for line in shown if "\x1b" in line]
    assert "       adversarial_unsafe_prompts-mean_refusal_confidence" in shown
    errors = [line for line in shown if line.startswith("ERROR")]
    assert [line.endswith("…") for line in errors] == [True, True]
    assert [line.split()[1][-2:] for line in errors] == ["a:", "b:"]


def test_a_gate_whose_name_has_no_room_has_a_line_of_its_own() -> None:
    gates = [replace(RATE, maximum=0.9), replace(GROUP, maximum=0.9)]
    earlier, found = (
        Earlier(scores_of(records("R " * 40))),
        records("R " * 40, category="fraud"),
    )
    verdicts = [decide(gate, found, earlier=earlier) for gate in gates]
    runs = [
        run(*verdicts, candidate=f"/m/{'long-name-of-a-run-' * 2}{n}") for n in (1, 2)
    ]
    shown = shown_lines(*runs, width=60)
    assert [str(line).rstrip()[:35] for line in shown[:7]] == [
        "       candidate             figure",
        "       bench-rejection_rate",
        "FAIL   long-name-of-a-run…1  100.0%",
        "FAIL   long-name-of-a-run…2  100.0%",
        "         bench-rejection_rate-fraud",
        "FAIL   long-name-of-a-run…1  100.0%",
        "FAIL   long-name-of-a-run…2  100.0%",
    ]
    assert [line.is_bold for line in shown[1:5]] == [True, True, True, False]


def test_characters_of_double_width_keep_the_columns() -> None:
    group = replace(GROUP, group="网络诈骗" * 3)
    found = records("R " * 40, category=str(group.group))
    _, *rows = lines(run(*(decide(gate, found) for gate in (RATE, group))))
    assert len({cell_len(row[: row.index("100.0%")]) for row in rows[:2]}) == 1
    assert max(map(cell_len, rows[:2])) <= WIDTH


@pytest.mark.parametrize(
    ("words", "mark", "colour"),
    [
        ("R " * 80, "pass", "green"),
        ("R " * 9 + "C", "pass?", "yellow"),
        ("C " * 50, "FAIL", "red"),
    ],
)
def test_outcomes_have_colours_beside_their_words(
    words: str, mark: str, colour: str
) -> None:
    found = run(decide(STRICT, records(words)))
    (shown, markup), (_, text) = shown_lines(found)[1].pieces
    assert (shown, markup[colour], text) == (mark, True, {"bold": True})


def test_errors_stand_in_the_table_harmlessly_below_why_the_run_ended_early() -> None:
    failed = decide(STRICT, records("R C"))
    error = (
        "rejection_rate: no valid verdict among 1250 answers \x1b[2J\n::error::c\x07"
        * 3
    )
    found = run(failed, **{"other-rate": error, "a\x1b[31m": "b"})
    found.failure = "the engine ended\nlast line: \x1b[31mred\x07"
    ended, log, header, row, first, second, *_ = lines(found)
    assert ended == "the engine ended"
    assert log.startswith("last line: ")
    assert header.split() == ["gate", "figure", "n", "threshold", "invalid"]
    assert row.split()[:5] == [
        "FAIL?",
        "bench-rejection_rate",
        "50.0%",
        "[9.5,",
        "90.5]",
    ]
    assert first.startswith("ERROR  other-rate: rejection_rate: no valid verdict among")
    assert len(first) <= WIDTH
    assert second == "ERROR  a: b"
    assert not re.search(r"[\x00-\x1f]", log + first + second)


def shipped_gates() -> list[Gate]:
    known = benchmarks.discover()
    specs = map(RunSpec.read, toml_file.names())
    return [gate for spec in specs for gate in spec.gates if gate.benchmark in known]


def as_judged(gate: Gate, record: Record) -> Record:
    """The record with a verdict of the type that the gate's benchmark has."""
    verdicts = kind_of(benchmarks.discover()[gate.benchmark]).verdicts
    judgement = record.judgement
    if isinstance(judgement, Binary) and verdicts is not Binary:
        judgement = list(EXTREMES[verdicts].values())[judgement.label is Label.REFUSAL]
    prompt = replace(record.prompt, reference="A", options={"A": "yes", "B": "no"})
    return replace(record, prompt=prompt, judgement=judgement)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_gate_keeps_its_name_in_a_narrow_terminal(width: int) -> None:
    passed = decide(STRICT, records("R " * 60))
    groups = ("fraud_and_scams_" * 3 + end_ for end_ in ("one", "two"))
    table = lines(
        run(passed, *(of_group(passed, group) for group in groups)), width=width
    )
    names = "".join(line.strip() for line in table)
    assert "scams_one" in names.replace(" ", "")
    assert "scams_two" in names.replace(" ", "")
    assert not [line for line in table if "…" in line]
    assert max(map(cell_len, table)) <= width


def test_columns_go_before_names_do() -> None:
    passed = decide(replace(STRICT, benchmark="adversarial_unsafe"), records("R " * 60))
    header, row, *_ = lines(run(passed), width=90)
    assert header.split() == ["gate", "figure", "n", "threshold", "invalid"]
    assert row.split()[:3] == ["pass", "adversarial_unsafe-rejection_rate", "100.0%"]
    narrow = [lines(run(passed), width=width)[:2] for width in (80, 70, 60)]
    assert [(header.split()[1:], "[" in row) for header, row in narrow] == [
        (["figure", "n", "threshold"], True),
        (["figure", "n", "threshold"], False),
        (["figure", "threshold"], False),
    ]


def test_passing_groups_are_folded_where_there_are_many() -> None:
    passed = decide(STRICT, records("R " * 60))
    failed = of_group(decide(STRICT, records("C " * 60)), "bad")
    many = run(passed, failed, *(of_group(passed, f"g{n}") for n in range(30)))
    told = lines(many)
    assert "30 gates on groups passed too (shown with -v)" in told
    assert any("bench-rejection_rate-bad" in line for line in told)
    assert any("bench-rejection_rate-g7" in line for line in lines(many, verbosity=1))
