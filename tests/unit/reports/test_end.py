"""The end of a run's output: what is wrong in few lines, what it was made with, the answer last."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.prompts import Kind
from refusal_checks.core.redaction import redacted
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.models.client.usage import Usage
from refusal_checks.reports import terminal
from refusal_checks.reports.terminal import WIDTH, tokens, unfinished_work, usable_width
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.events import Progress
from refusal_checks.results.execution import Execution
from refusal_checks.results.manifest import Manifest, ModelFacts, Models
from refusal_checks.results.summary import RunSummary
from tests.support.deciding import decide
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of
from tests.unit.reports.test_table import (
    STRICT,
    of_group,
    run,
)

FOLDER = Path("runs/one")


def shown(
    run: RunSummary, width: int = 80, verbosity: int = 0, report: str = ""
) -> list[str]:
    reports = [report] * bool(report)
    return list(terminal.lines(run, FOLDER, width, verbosity, reports))


def breach() -> RunSummary:
    found = [
        replace(r, prompt=replace(r.prompt, kind=Kind.SAFETY))
        for r in records("C " * 50)
    ]
    earlier = Earlier(replace(scores_of(records("R " * 50)), title="release-1.3"))
    return run(decide(replace(STRICT, max_drop=0.05), found, earlier=earlier))


def worse() -> RunSummary:
    after = records("R " * 20 + "C " * 80)
    sane = [replace(r, prompt=replace(r.prompt, kind=Kind.SANITY)) for r in after]
    earlier = Earlier(replace(scores_of(records("C " * 100)), title="release-1.3"))
    return run(decide(Gate("bench", "rejection_rate", max=0.5), sane, earlier=earlier))


def doubtful_groups() -> RunSummary:
    doubtful = decide(STRICT, records("R R C"))
    return run(*(of_group(doubtful, f"g{number}") for number in range(30)))


def failed_twice() -> RunSummary:
    """Two gates fail on the same prompts."""
    failed = decide(STRICT, records("C " * 50))
    return run(failed, of_group(failed, "fraud"))


def failed_redacted() -> RunSummary:
    failed = decide(STRICT, records("C " * 50))
    hidden = [
        replace(each, prompt=redacted(each.prompt)) for each in failed.failing_prompts
    ]
    violations = replace(failed.violations, failing_prompts=tuple(hidden))
    return run(replace(failed, violations=violations))


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
    "failed twice": failed_twice,
    "failed, redacted": failed_redacted,
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
    assert "request p" not in text or "redacted" not in case


def test_a_command_is_named_where_there_is_no_page() -> None:
    told = "\n".join(shown(doubtful_groups(), width=WIDTH))
    assert "to read the answers: refusal-checks report html runs/one" in told
    assert "to read the answers" not in "\n".join(shown(ENDS["yes"]()))


@pytest.mark.parametrize(("words", "style"), [("C " * 40, "1;31"), ("R " * 40, "32")])
def test_the_answer_is_the_last_line_and_has_its_colour(words: str, style: str) -> None:
    found = run(decide(STRICT, records(words)))
    *_, last = terminal.lines(found, FOLDER, 200, colour=True)
    assert last.startswith(f"\x1b[{style}mMay it ship?")


@pytest.mark.parametrize("width", [40, 60, 79, 99])
def test_a_run_is_told_in_few_lines_however_much_is_wrong(width: int) -> None:
    failed = decide(STRICT, records("C " * 50))
    many = run(
        *(replace(failed, gate=replace(STRICT, benchmark=f"b{n}")) for n in range(20))
    )
    many.notes = [f"a note {n}" for n in range(20)]
    told = shown(many, width=width)
    assert f"-v shows {20 - terminal.REMARKS} more remarks" in told
    assert len(told) < 20 + 14


def test_a_passing_run_of_eight_gates_takes_twelve_lines() -> None:
    passed = decide(STRICT, records("R " * 60))
    eight = run(
        *(replace(passed, gate=replace(STRICT, benchmark=f"b{n}")) for n in range(8))
    )
    assert len(shown(eight)) <= 12


@pytest.mark.parametrize(
    ("columns", "width"), [(80, 79), (200, 100), (10, 40), (0, 40)]
)
def test_a_terminal_is_filled_within_limits(columns: int, width: int) -> None:
    assert usable_width(columns) == width


def test_the_command_that_is_shown_finds_the_run() -> None:
    told = terminal.lines(breach(), Path("my runs/20260101-1"), 80)
    (line,) = (line for line in told if "refusal-checks report" in line)
    assert line.endswith(" report html 'my runs/20260101-1'")


FULL = Usage(80, 0, 12345, 1000, 678)
USED = Manifest(
    candidate="org/model",
    store="store.sqlite",
    models=Models(judges={"org/judge": ModelFacts()}),
)
WENT = Execution(
    answers=1,
    verdicts=2,
    reused=1,
    seconds=0.5,
    tokens={"candidate": FULL, "judge": Usage()},
)
MANY = dict.fromkeys(("candidate", "judge"), Usage(*[123_456_789] * 6))
FOOTERS = {
    "models": WENT,
    "no engine": WENT.model_copy(update={"tokens": MANY}),
}


@pytest.mark.parametrize("case", FOOTERS)
def test_the_footer_tells_what_the_figures_were_found_with(
    case: str, snapshot: SnapshotAssertion
) -> None:
    summary = RunSummary(USED, execution=FOOTERS[case])
    summary.benchmarks["bench"] = summarise(records("RR"), 0.95)
    told = shown(summary, WIDTH, verbosity=1)
    assert "\n".join(told[: told.index("run folder runs/one")]) == snapshot


@pytest.mark.parametrize(
    ("usages", "line"),
    [
        ({"candidate": Usage()}, None),
        (
            {"judge": Usage(20, 1, 4120, 3800, 310, 10)},
            "tokens: judge 4,120 prompt (3,800 cached), 310 output in 20 requests, 443 for each "
            "verdict",
        ),
        ({"candidate": Usage(3), "judge": Usage(2, verdicts=2)}, None),
    ],
)
def test_tokens_are_told_by_role(usages: dict[str, Usage], line: str | None) -> None:
    assert list(tokens(usages)) == ([line] if line else [])


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
