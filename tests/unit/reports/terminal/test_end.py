"""The end of a run's output: few lines, what is wrong in words, and the answer last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.text import redacted
from refusal_checks.gates.compare import Earlier
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.models.client.answers import Usage
from refusal_checks.reports import remarks
from refusal_checks.reports.terminal import end
from refusal_checks.reports.terminal.end import WIDTH, Screen, fitting, footer, tokens, unfinished
from refusal_checks.results import run_folder
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.progress import Progress
from refusal_checks.results.summary import RunSummary, summarise
from refusal_checks.run.manifest import facts
from tests.deciding import decide
from tests.unit.gates.test_baseline import scores_of
from tests.unit.reports.terminal.test_table import as_judged, run, shipped_gates
from tests.unit.reports.test_explain import Many

RATE = Gate("bench", "rejection_rate", minimum=0.8)
FOLDER = Path("runs/one")


def shown(*runs: RunSummary, width: int = 80, verbosity: int = 0, report: str = "") -> list[str]:
    screen, reports = Screen(width, verbosity), [report] * bool(report)
    return [str(line) for line in end.lines([(each, FOLDER) for each in runs], screen, reports)]


def of_group(verdict: Verdict, group: str) -> Verdict:
    return replace(verdict, gate=replace(verdict.gate, group_kind="category", group=group))


def breach(records: Many) -> RunSummary:
    found = [replace(r, prompt=replace(r.prompt, kind=Kind.SAFETY)) for r in records("C " * 50)]
    earlier = Earlier(replace(scores_of(records("R " * 50)), title="release-1.3"))
    return run(decide(replace(RATE, max_drop=0.05), found, earlier=earlier))


def worse(records: Many) -> RunSummary:
    after = records("R " * 20 + "C " * 80)
    sane = [replace(r, prompt=replace(r.prompt, kind=Kind.SANITY)) for r in after]
    earlier = Earlier(replace(scores_of(records("C " * 100)), title="release-1.3"))
    return run(decide(Gate("bench", "rejection_rate", maximum=0.5), sane, earlier=earlier))


ENDS: dict[str, Callable[[Many], RunSummary]] = {
    "yes": lambda of: run(
        *(decide(each, of("R " * 60)) for each in (RATE, replace(RATE, group="x")))
    ),
    "breach": breach,
    "worse than last time": worse,
    "doubt": lambda of: run(decide(RATE, of("R R R R C"))),
}


@pytest.mark.parametrize("verbosity", [0, 1])
@pytest.mark.parametrize("case", ENDS)
def test_the_end_of_a_run(
    records: Many, case: str, verbosity: int, snapshot: SnapshotAssertion
) -> None:
    told = shown(ENDS[case](records), verbosity=verbosity, report="html report r.html")
    assert "\n".join(told) == snapshot


def test_where_no_page_is_written_a_command_for_one_is_named(records: Many) -> None:
    line = "to read the answers: refusal-checks report html report.html runs/one"
    assert line in shown(breach(records))
    assert line not in shown(ENDS["yes"](records))


def test_the_answer_is_the_last_line_of_each_candidate_s_and_has_its_colour(records: Many) -> None:
    good, bad = run(decide(RATE, records("R " * 60))), run(decide(RATE, records("C " * 60)))
    runs = [replace(good, manifest=Manifest(candidate="good")), bad]
    *_, first, last = end.lines([(each, FOLDER) for each in runs], Screen(80))
    assert str(first) == "good: May it ship? YES: the gate passed"
    assert str(last) == "model: May it ship? NO: 1 of 1 gate failed"
    assert first.pieces[1][1] == {"bold": True}
    assert [line.pieces[0][1] for line in (first, last)] == [
        {"green": True},
        {"red": True, "bold": True},
    ]


@pytest.mark.parametrize("width", [40, 60, 79, 99])
def test_remarks_take_five_lines_however_much_is_wrong(records: Many, width: int) -> None:
    failed = decide(RATE, records("C " * 50))
    many = run(*(replace(failed, gate=replace(RATE, benchmark=f"b{n}")) for n in range(20)))
    many.notes = ["a note " * 20]
    below = list(remarks.brief_lines([("", many)], width))
    assert len(below) <= remarks.MOST
    assert below[-1].startswith("-v shows ")
    assert all(cell_len(line) <= width for line in shown(many, width=width) if ":" not in line)


def test_no_prompt_stands_for_two_gates(records: Many) -> None:
    failed = decide(RATE, records("C " * 50))
    told = shown(run(failed, of_group(failed, "fraud")))
    assert Counter("request p1" in line for line in told)[True] == 1
    assert any("request p2" in line for line in told)


def test_texts_that_are_kept_to_oneself_are_not_shown(records: Many) -> None:
    failed = decide(RATE, records("C " * 50))
    hidden = [replace(each, prompt=redacted(each.prompt)) for each in failed.offenders]
    told = "\n".join(shown(run(replace(failed, offenders=tuple(hidden)))))
    assert "request p1" not in told
    assert "p1" in told


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_gate_keeps_its_name_in_a_narrow_terminal(records: Many, width: int) -> None:
    passed = decide(RATE, records("R " * 60))
    groups = ("fraud_and_scams_" * 3 + end_ for end_ in ("one", "two"))
    table = shown(run(passed, *(of_group(passed, group) for group in groups)), width=width)
    names = "".join(line.strip() for line in table if "run folder" not in line)
    assert "scams_one" in names.replace(" ", "")
    assert "scams_two" in names.replace(" ", "")
    assert not [line for line in table if "…" in line]
    assert max(map(cell_len, table)) <= width


def test_columns_go_before_names_do(records: Many) -> None:
    passed = decide(replace(RATE, benchmark="adversarial_unsafe"), records("R " * 60))
    header, row, *_ = shown(run(passed), width=90)
    assert header.split() == ["gate", "figure", "n", "threshold", "invalid"]
    assert row.split()[:3] == ["pass", "adversarial_unsafe-rejection_rate", "100.0%"]
    narrow = [shown(run(passed), width=width)[:2] for width in (80, 70, 60)]
    assert [(header.split()[1:], "[" in row) for header, row in narrow] == [
        (["figure", "n", "threshold"], True),
        (["figure", "n", "threshold"], False),
        (["figure", "threshold"], False),
    ]


def test_the_default_gates_end_in_25_lines(records: Many) -> None:
    everything = records("R " * 120 + "C " * 329 + "R-CRC")
    gates = [each for each in shipped_gates() if each.source.endswith("default.toml")]
    gates += [each for each in shipped_gates() if each.source == "default gate"]
    names = {each.benchmark for each in gates if each.source.endswith("default.toml")}
    verdicts = [decide(each, judged(each, everything)) for each in gates if each.benchmark in names]
    assert len(verdicts) >= 14
    assert 1 + len(shown(run(*verdicts), report="html report report.html")) <= 25


def judged(gate: Gate, found: list[Record]) -> list[Record]:
    return [as_judged(gate, each) for each in found]


def test_passing_groups_are_folded_where_there_are_many(records: Many) -> None:
    passed = decide(RATE, records("R " * 60))
    failed = of_group(decide(RATE, records("C " * 60)), "bad")
    many = run(passed, failed, *(of_group(passed, f"g{n}") for n in range(30)))
    told = shown(many)
    assert "30 gates on groups passed too (shown with -v)" in told
    assert any("bench-rejection_rate-bad" in line for line in told)
    assert any("bench-rejection_rate-g7" in line for line in shown(many, verbosity=1))


def test_all_of_our_own_words_are_in_every_code_page(records: Many) -> None:
    failed = decide(RATE, records("C " * 50))
    for verbosity in (0, 2):
        for width in (40, 80):
            told = "\n".join(shown(run(failed, failed), width=width, verbosity=verbosity))
            assert told.encode("cp437")


@pytest.mark.parametrize(("columns", "width"), [(80, 79), (200, 100), (10, 40), (0, 40)])
def test_a_terminal_is_filled_within_limits(columns: int, width: int) -> None:
    assert fitting(columns) == width


@pytest.mark.parametrize(
    ("folder", "named"),
    [
        ("kept/20260101-120000-1", "20260101-120000-1"),
        (".refusal-checks/runs/20260101-120000-1", ".refusal-checks/runs/20260101-120000-1"),
        ("my runs/20260101-120000-1", "'my runs/20260101-120000-1'"),
    ],
)
def test_the_command_that_is_shown_finds_the_run(
    records: Many, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(run_folder.RUNS_VARIABLE, "kept")
    failed = run(decide(RATE, records("C " * 50)))
    (line,) = (
        str(line)
        for line in end.lines([(failed, Path(folder))], Screen(80))
        if "refusal-checks report" in str(line)
    )
    assert line.endswith(f" report html report.html {named}")


STORE = Path("store.sqlite")


def used(number: int) -> dict[str, int]:
    """The tokens of a role."""
    names = ("requests", "retries", "prompt", "cached", "output", "verdicts")
    return dict.fromkeys(names, number)


def test_the_footer_tells_what_the_figures_were_found_with(records: Many) -> None:
    found = RunSummary(Manifest(candidate="org/model"))
    found.benchmarks["bench"] = summarise(records("RR"), 0.95)
    role = used(0) | {"requests": 3, "prompt": 1200, "cached": 200, "output": 50}
    found.manifest = found.manifest.extended(
        models={"judges": {"org/judge": {}}},
        engines={"started": ["org/model", "org/judge"], "attached": [], "ready_s": [41.3]},
        tokens={"candidate": role, "judge": {"requests": 0}},
        asked={"answers": 1, "verdicts": 2, "reused": 1},
        evaluation_s=0.5,
        store="store.sqlite",
    )
    shown = list(footer([(found, Path("runs/one"))]))
    assert max(map(len, shown)) <= WIDTH
    assert " ".join(" ".join(shown).split()) == " ".join(
        [
            "candidate org/model, judge org/judge",
            "engine started org/model, org/judge, ready after 41 s",
            "tokens: candidate 1,200 prompt (200 cached), 50 output in 3 requests",
            "time 0.5 s for 2 answers with verdicts, 4 per second; 1 answers were stored already, "
            "at most 1 were generated and 2 verdicts requested",
            "store store.sqlite",
        ]
    )


@pytest.mark.parametrize(("pinned", "said"), [(False, True), (True, False), (None, False)])
def test_the_footer_and_junit_name_rows_that_nothing_pins(pinned: bool | None, said: bool) -> None:
    found = Manifest().extended(data={"sorrybench": {"revision": "97dd", "pinned": pinned}})
    shown = "\n".join(footer([(RunSummary(found), Path())]))
    assert ("unpinned rows: sorrybench" in shown) is said
    properties = facts(found.extended(judge_prompts={"sorrybench": {}}))
    assert ("unpinned rows" in properties["data_revision/sorrybench"]) is said


def test_the_footer_stays_within_its_columns() -> None:
    usages = {role: used(123_456_789) for role in ("candidate", "judge")}
    found = RunSummary(Manifest().extended(tokens=usages))
    assert max(map(len, footer([(found, Path())]))) <= WIDTH


def test_the_footer_says_that_no_engine_was_needed() -> None:
    engines = {"started": [], "attached": [], "ready_s": [0.0]}
    found = RunSummary(Manifest().extended(engines=engines))
    assert "engine none: no model was needed" in footer([(found, Path())])


def progress(done: bool) -> Progress:
    """One benchmark that is complete, and one that has just begun."""
    found = Progress()
    found.plan({"first": 2, "second": 3})
    for _ in range(2):
        found.answered("first")
        found.judged("first", [])
    found.finished("first")
    found.answered("second")
    if done:
        found.finished("second")
    return found


def test_an_interrupted_run_says_what_is_done_and_how_to_continue() -> None:
    assert list(unfinished(progress(False), RunSummary(), 4, STORE, fresh=False)) == [
        "first: complete, 2 prompts",
        "second: 1 of 3 prompts answered, 0 judged",
        "0 of 4 gates decided",
        "to continue, run the same command again: store.sqlite holds the finished work",
    ]


def test_a_fresh_run_names_its_own_store() -> None:
    *_, last = unfinished(progress(False), RunSummary(), 1, STORE, fresh=True)
    assert "--store store.sqlite instead of --fresh" in last


def test_a_complete_run_and_one_that_never_began_have_nothing_to_continue() -> None:
    assert list(unfinished(progress(True), RunSummary(), 4, STORE, fresh=False)) == []
    assert list(unfinished(Progress(), RunSummary(), 4, STORE, fresh=False)) == []


@pytest.mark.parametrize(
    ("usages", "line"),
    [
        ({}, None),
        ({"candidate": Usage()}, None),
        (
            {"candidate": Usage(80, 0, 12345, 1000, 678), "judge": Usage()},
            "tokens: candidate 12,345 prompt (1,000 cached), 678 output in 80 requests",
        ),
        (
            {"judge": Usage(20, 1, 4120, 3800, 310, 10)},
            "tokens: judge 4,120 prompt (3,800 cached), 310 output in 20 requests and 1 retries, "
            "per verdict: 412 prompt (380 cached), 31 output",
        ),
        (
            {"candidate": Usage(3), "judge": Usage(2, verdicts=2)},
            "tokens: candidate unknown in 3 requests; judge unknown in 2 requests",
        ),
    ],
)
def test_tokens_are_told_by_role(usages: dict[str, Usage], line: str | None) -> None:
    assert list(tokens(usages)) == ([line] if line else [])
    assert list(tokens({})) == []
