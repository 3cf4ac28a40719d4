"""The end of a run's output: what is wrong in few lines, what it was made with, the answer last."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.prompts import Kind
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.reports import terminal
from refusal_checks.reports.terminal import WIDTH, unfinished_work, usable_width
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.events import Progress
from refusal_checks.results.execution import Execution
from refusal_checks.results.manifest import Manifest, ModelFacts, Models
from refusal_checks.results.summary import RunSummary
from tests.support.deciding import decide, of_kind
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of
from tests.unit.reports.test_table import STRICT, run

FOLDER = Path("runs/one")


def shown(
    run: RunSummary, width: int = 80, verbosity: int = 0, report: str = ""
) -> list[str]:
    reports = [report] * bool(report)
    return list(terminal.lines(run, FOLDER, width, verbosity, reports))


def breach() -> RunSummary:
    found = of_kind(Kind.SAFETY, records("C " * 50))
    earlier = Earlier(replace(scores_of(records("R " * 50)), title="release-1.3"))
    return run(decide(replace(STRICT, max_drop=0.05), found, earlier=earlier))


def worse() -> RunSummary:
    sane = of_kind(Kind.SANITY, records("R " * 20 + "C " * 80))
    earlier = Earlier(replace(scores_of(records("C " * 100)), title="release-1.3"))
    return run(decide(Gate("bench", "rejection_rate", max=0.5), sane, earlier=earlier))


ENDS: dict[str, Callable[[], RunSummary]] = {
    "yes": lambda: run(
        *(
            decide(gate, records("R " * 60))
            for gate in (STRICT, replace(STRICT, group="x"))
        )
    ),
    "breach": breach,
    "worse than last time": worse,
    "doubt": lambda: run(decide(STRICT, records("R R R R C"))),
}


@pytest.mark.parametrize("verbosity", [0, 1])
@pytest.mark.parametrize("case", ENDS)
def test_the_end_of_a_run(
    case: str, verbosity: int, snapshot: SnapshotAssertion
) -> None:
    told = shown(ENDS[case](), verbosity=verbosity, report="html report r.html")
    text = "\n".join(told)
    assert text == snapshot
    assert text.encode("cp437", "strict"), "our own words are in every code page"


def test_where_there_is_no_page_a_command_that_finds_the_run_is_named() -> None:
    told = terminal.lines(breach(), Path("my runs/20260101-1"), WIDTH)
    command = "refusal-checks report html 'my runs/20260101-1'"
    assert f"to read the answers: {command}" in told
    assert "to read the answers" not in "\n".join(shown(ENDS["yes"]()))


@pytest.mark.parametrize(
    ("words", "gates", "most"),
    [
        pytest.param("R " * 60, 8, 12, id="all passed"),
        pytest.param("C " * 50, 20, 33, id="all failed"),
    ],
)
def test_a_run_is_told_in_few_lines(words: str, gates: int, most: int) -> None:
    found = decide(STRICT, records(words))
    named = (
        replace(found, gate=replace(STRICT, benchmark=f"b{n}")) for n in range(gates)
    )
    many = run(*named)
    many.notes = [f"a note {n}" for n in range(gates)] * (not found.passed)
    told = shown(many)
    assert len(told) <= most
    more = f"-v shows {gates - terminal.REMARKS} more remarks"
    assert (more in told) is bool(many.notes)


@pytest.mark.parametrize(
    ("columns", "width"), [(80, 79), (200, 100), (10, 40), (0, 40)]
)
def test_a_terminal_is_filled_within_limits(columns: int, width: int) -> None:
    assert usable_width(columns) == width


def test_the_footer_tells_what_the_figures_were_found_with() -> None:
    judges = {"org/judge": ModelFacts()}
    used = Manifest(candidate="org/model", models=Models(judges=judges))
    went = Execution(answers=1, verdicts=2, reused=1, seconds=0.5)
    summary = RunSummary(used, execution=went)
    summary.benchmarks["bench"] = summarise(records("RR"), 0.95)
    told = shown(summary, WIDTH, verbosity=1)
    end = told.index("run folder runs/one")
    assert told[end - 2 : end] == [
        "candidate org/model, judged by org/judge",
        "time 0.5 s: 1 answers were stored already, at most 1 were generated and 2 verdicts "
        "requested",
    ]


def progress(done: bool) -> Progress:
    """One benchmark that is complete, and one that has just begun."""
    found = Progress()
    found.plan({"first": 2, "second": 3})
    for _ in range(2):
        found.count_answered("first")
        found.count_judged("first", [])
    found.count_finished("first")
    found.count_answered("second")
    if done:
        found.count_finished("second")
    return found


def test_an_interrupted_run_says_what_is_done_and_how_to_continue() -> None:
    summary, begun = RunSummary(Manifest(store="store.sqlite")), progress(False)
    assert list(unfinished_work(begun, summary, 4, fresh=False)) == [
        "first: complete, 2 prompts",
        "second: 1 of 3 prompts answered, 0 judged",
        "0 of 4 gates decided",
        "to continue, run the same command again: store.sqlite holds the finished work",
    ]
    *_, last = unfinished_work(begun, summary, 1, fresh=True)
    assert last.startswith(
        "to continue, run the same command without --fresh: store.sqlite"
    )
    for none in (progress(True), Progress()):  # it is complete, or never began
        assert list(unfinished_work(none, summary, 4, fresh=False)) == []
