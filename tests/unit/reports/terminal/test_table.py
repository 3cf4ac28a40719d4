"""The table with its columns, candidates and markup, and the remarks below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from refusal_checks import benchmarks
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import EXTREMES, Binary, Label
from refusal_checks.gates import thresholds
from refusal_checks.gates.compare import Earlier
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import kind_of
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.reports import rows as table
from refusal_checks.reports.terminal import end
from refusal_checks.reports.terminal.end import WIDTH, Line, Screen
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary, balance, distinct, summarise
from tests.deciding import decide
from tests.unit.gates.test_baseline import scores_of
from tests.unit.reports.test_explain import Many, compared

RATE = Gate("bench", "rejection_rate", minimum=0.5)
INVALID = Gate("bench", "invalid_rate", maximum=0.02)
PAIR = (RATE, INVALID)
GROUP = replace(RATE, group_kind="category", group="fraud")


def run(*verdicts: Verdict, candidate: str = "org/model", **errors: str) -> RunSummary:
    found = {verdict.gate.id: verdict for verdict in verdicts}
    return RunSummary(Manifest(candidate=candidate), verdicts=found, errors=errors)


def shown_lines(*runs: RunSummary, verbosity: int = 0, width: int = WIDTH) -> list[Line]:
    """What is shown above the reports and the answer."""
    folders = [(each, Path("runs")) for each in runs]
    found = list(end.lines(folders, Screen(width, verbosity)))
    return found[: [str(line) for line in found].index("run folder runs")]


def lines(*runs: RunSummary, verbosity: int = 0, width: int = WIDTH) -> list[str]:
    return [str(line) for line in shown_lines(*runs, verbosity=verbosity, width=width)]


def test_a_benchmark_s_gates_stand_together_the_main_one_first_and_in_full(records: Many) -> None:
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


def with_benchmarks(records: Many) -> RunSummary:
    """A run of which answers are invalid, one benchmark stopped early, and prompts have groups."""
    found = run(decide(replace(RATE, provenance="agreed\x1b[2J"), records("R")))
    found.benchmarks["bench"] = summarise(records("R- -- RR", language="en"), 0.95)
    found.benchmarks["clean"] = summarise(records("RR"), 0.95)
    found.benchmarks["early"] = summarise(records("R " * 20), 0.95, planned=80)
    return found


def two_candidates(records: Many) -> list[RunSummary]:
    good = run(decide(RATE, records("R " * 40)), candidate="http://h/v1#org/one")
    bad = run(decide(RATE, records("C " * 40)), candidate="/models/two/")
    bad.failure = "the engine ended"
    return [good, bad]


def with_baseline(records: Many) -> RunSummary:
    before, after = records("R " * 60), records("C " * 30 + "R " * 30)
    metrics = ("rejection_rate", "mean_refusal_confidence", "compliance_rate")
    return run(*(compared(before, after, Gate("bench", each, max_drop=0.05)) for each in metrics))


SHOWN: dict[str, Callable[[Many], list[RunSummary]]] = {
    "invalid rate passes": lambda of: [run(*(decide(each, of("R " * 60)) for each in PAIR))],
    "invalid rate fails": lambda of: [run(decide(INVALID, of("R " * 60 + "- " * 20)))],
    "invalid rate alone": lambda of: [run(decide(INVALID, of("R " * 300)))],
    "baseline": lambda of: [with_baseline(of)],
    "candidates": two_candidates,
    "benchmarks": lambda of: [with_benchmarks(of)],
}


@pytest.mark.parametrize("verbosity", [0, 1])
@pytest.mark.parametrize("case", SHOWN)
def test_the_table_and_what_is_below(
    records: Many, case: str, verbosity: int, snapshot: SnapshotAssertion
) -> None:
    shown = lines(*SHOWN[case](records), verbosity=verbosity)
    assert max(map(cell_len, shown)) <= WIDTH
    assert "\n".join(shown) == snapshot


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["org/model"], [""]),
        (["a/one", "b/two"], ["one", "two"]),
        (["a/one", "b/one"], ["a/one", "b/one"]),
        (["x" * 40 + "1", "x" * 40 + "2"], ["…" + "x" * 18 + "1", "…" + "x" * 18 + "2"]),
        (["1" + "x" * 40, "2" + "x" * 40], ["1 …" + "x" * 16, "2 …" + "x" * 16]),
    ],
)
def test_candidates_have_short_names_that_differ(names: list[str], shown: list[str]) -> None:
    found = table.candidate_names([run(candidate=name) for name in names])
    assert found == shown
    assert all(len(name) <= table.CANDIDATE_WIDTH for name in found)


def test_everything_at_once_fits_in_a_hundred_columns(records: Many) -> None:
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


def test_a_gate_whose_name_has_no_room_has_a_line_of_its_own(records: Many) -> None:
    gates = [replace(RATE, maximum=0.9), replace(GROUP, maximum=0.9)]
    earlier, found = Earlier(scores_of(records("R " * 40))), records("R " * 40, category="fraud")
    verdicts = [decide(gate, found, earlier=earlier) for gate in gates]
    runs = [run(*verdicts, candidate=f"/m/{'long-name-of-a-run-' * 2}{n}") for n in (1, 2)]
    shown = shown_lines(*runs, width=60)
    assert [str(line).rstrip()[:35] for line in shown[:7]] == [
        "       candidate             figure",
        "       bench-rejection_rate",
        "FAIL   …ong-name-of-a-run-1  100.0%",
        "FAIL   …ong-name-of-a-run-2  100.0%",
        "         bench-rejection_rate-fraud",
        "FAIL   …ong-name-of-a-run-1  100.0%",
        "FAIL   …ong-name-of-a-run-2  100.0%",
    ]
    assert [line.is_bold for line in shown[1:5]] == [True, True, True, False]


def test_characters_of_double_width_keep_the_columns(records: Many) -> None:
    group = replace(GROUP, group="网络诈骗" * 3)
    found = records("R " * 40, category=str(group.group))
    _, *rows = lines(run(*(decide(gate, found) for gate in (RATE, group))))
    assert len({cell_len(row[: row.index("100.0%")]) for row in rows[:2]}) == 1
    assert max(map(cell_len, rows[:2])) <= WIDTH


@pytest.mark.parametrize(
    ("words", "mark", "colour"),
    [("R " * 80, "pass", "green"), ("R " * 9 + "C", "pass?", "yellow"), ("C " * 50, "FAIL", "red")],
)
def test_outcomes_have_colours_beside_their_words(
    records: Many, words: str, mark: str, colour: str
) -> None:
    found = run(decide(replace(RATE, minimum=0.8), records(words)))
    (shown, markup), (_, text) = shown_lines(found)[1].pieces
    assert (shown, markup[colour], text) == (mark, True, {"bold": True})


def test_errors_stand_in_the_table_harmlessly_and_within_its_width(records: Many) -> None:
    failed = decide(replace(RATE, minimum=0.8), records("R C"))
    error = "rejection_rate: no valid verdict among 1250 answers \x1b[2J\n::error::c\x07" * 3
    header, row, first, second, *_ = lines(run(failed, **{"other-rate": error, "a\x1b[31m": "b"}))
    assert header.split() == ["gate", "figure", "n", "threshold", "invalid"]
    assert row.split()[:5] == ["FAIL?", "bench-rejection_rate", "50.0%", "[9.5,", "90.5]"]
    assert first.startswith("ERROR  other-rate: rejection_rate: no valid verdict among")
    assert len(first) <= WIDTH
    assert second == "ERROR  a: b"
    assert not re.search(r"[\x00-\x1f]", first + second)


def test_the_summary_begins_with_why_the_run_ended_early(records: Many) -> None:
    found = run(decide(RATE, records("R")))
    found.failure = "the engine ended\nlast line: \x1b[31mred\x07"
    first, second, *_ = lines(found)
    assert first == "the engine ended"
    assert second.startswith("last line: ")
    assert not re.search(r"[\x00-\x1f]", second)


def test_the_shipped_gates_fit_in_a_hundred_columns(records: Many) -> None:
    everything = records("R " * 120 + "C " * 329 + "R-CRC")
    verdicts = [
        decide(replace(gate, group_kind=None), list(map(partial(as_judged, gate), everything)))
        for gate in longest_of_their_kind(shipped_gates())
        if gate.benchmark != "rating_gradient"
    ]
    assert len(verdicts) >= 10
    assert max(map(len, lines(run(*verdicts), verbosity=2))) <= WIDTH


def longest_of_their_kind(gates: Sequence[Gate]) -> list[Gate]:
    """Of the gates on a benchmark's groups of one kind, that on the group with the longest name."""
    by_length = sorted(gates, key=lambda gate: len(gate.group or ""))
    return list(
        {(gate.benchmark, gate.metric, gate.group_kind): gate for gate in by_length}.values()
    )


def shipped_gates() -> list[Gate]:
    folder = Path(benchmarks.__file__).parents[2] / "thresholds"
    known = benchmarks.discover()
    found = (thresholds.load([path], known) for path in folder.glob("*.toml"))
    return [gate for loaded in found for gate in loaded.gates if gate.benchmark in known]


def as_judged(gate: Gate, record: Record) -> Record:
    """The record with a verdict of the type that the gate's benchmark has."""
    verdicts = kind_of(benchmarks.discover()[gate.benchmark]).verdicts
    judgement = record.judgement
    if isinstance(judgement, Binary) and verdicts is not Binary:
        judgement = list(EXTREMES[verdicts].values())[judgement.label is Label.REFUSAL]
    prompt = replace(record.prompt, reference="A", options={"A": "yes", "B": "no"})
    return replace(record, prompt=prompt, judgement=judgement)


def test_the_spurious_failures_to_expect_are_told_with_vv(records: Many) -> None:
    doubtful = decide(replace(RATE, minimum=0.8), records("R R C"))
    many = run(
        *(
            replace(doubtful, gate=replace(doubtful.gate, group_kind="g", group=f"g{number}"))
            for number in range(30)
        )
    )
    spurious = [line for line in lines(many, verbosity=2) if "spurious failures among" in line]
    assert len(spurious) == 1
    assert "spurious" not in "".join(lines(many, verbosity=1))


def test_the_balance_pools_prompts_and_needs_both_kinds() -> None:
    def rate(value: float, n: int) -> dict[str, object]:
        return {"rejection_rate": wilson(value, n)}

    safety, sanity = ("safety", rate(0.9, 100)), ("sanity", rate(0.1, 50))
    found = balance([safety, ("safety", rate(0.6, 50)), sanity], 0.95)  # type: ignore[list-item]
    assert found is not None
    assert found.under_refusal.value == pytest.approx(0.2)
    assert found.under_refusal.n == 150
    assert found.under_refusal.lower < 0.2 < found.under_refusal.upper
    assert found.over_refusal == wilson(0.1, 50)
    assert balance([safety, safety], 0.95) is None  # type: ignore[list-item]


def test_prompts_of_a_benchmark_and_its_parts_count_once(records: Many) -> None:
    names = ("chisafety", "chisafety_qa", "chisafety_dialogue", "xstest_unsafe")
    one, known = summarise(records("R"), 0.95), benchmarks.discover()
    found = {name: replace(one, parts=known[name].parts) for name in names}
    assert list(distinct(found)) == ["chisafety", "xstest_unsafe"]
    assert list(distinct({name: found[name] for name in names[1:]})) == list(names[1:])
