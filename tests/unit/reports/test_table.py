"""The table at the end of a run: its rows and columns, whatever the width and the texts."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.text import sanitize
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports import terminal
from refusal_checks.reports.terminal import WIDTH
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary
from tests.support.deciding import decide, summary_of
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of
from tests.unit.reports.test_wording import compared

RATE = Gate("bench", "rejection_rate", min=0.5)
INVALID = Gate("bench", "invalid_rate", max=0.02)
PAIR = (RATE, INVALID)
STRICT = replace(RATE, min=0.8)
GROUP = replace(RATE, group_kind="category", group="fraud")


def of_group(verdict: Verdict, group: str) -> Verdict:
    return replace(
        verdict, gate=replace(verdict.gate, group_kind="category", group=group)
    )


def run(*verdicts: Verdict, candidate: str = "org/model", **errors: str) -> RunSummary:
    return summary_of(*verdicts, manifest=Manifest(candidate=candidate), errors=errors)


def with_benchmarks() -> RunSummary:
    """A run of which answers are invalid and prompts have groups."""
    found = run(decide(replace(RATE, provenance="agreed\x1b[2J"), records("R")))
    found.benchmarks["bench"] = summarise(records("R- -- RR", language="en"), 0.95)
    found.benchmarks["clean"] = summarise(records("RR"), 0.95)
    return found


def with_baseline() -> RunSummary:
    before, after = records("R " * 60), records("C " * 30 + "R " * 30)
    metrics = ("rejection_rate", "mean_refusal_confidence", "compliance_rate")
    gates = (Gate("bench", metric, max_drop=0.05) for metric in metrics)
    return run(*(compared(before, after, gate) for gate in gates))


def with_groups() -> RunSummary:
    """Gates of two benchmarks in no order, one of them on a group with wide characters."""
    answers = records("R " * 40, category="网络诈骗")
    group = replace(GROUP, group="网络诈骗")
    gates = (group, replace(RATE, benchmark="other"), INVALID, RATE)
    return run(*(decide(gate, answers) for gate in gates))


def everything() -> RunSummary:
    """All columns, with a candidate whose name is long and hostile."""
    gate = Gate("adversarial_unsafe_prompts", "mean_refusal_confidence", -0.5, 0.5)
    long = replace(gate, group_kind="c", group="\x1b[31m" + "contrast privacy " * 5)
    answers = records("R " * 40, c=str(long.group))
    earlier = Earlier(scores_of(records("R " * 40)))
    verdicts = decide(gate, answers, earlier=earlier), decide(long, answers)
    error = {"adversarial_unsafe_prompts-rejection_rate": "no valid verdict " * 20}
    return run(*verdicts, candidate=f"{'a' * 30}\x1b[2J", **error)


def ended_early() -> RunSummary:
    error = "no valid verdict among 1250 answers \x1b[2J\n::error::c\x07" * 3
    ended = run(
        decide(STRICT, records("R C")), **{"other-rate": error, "a\x1b[31m": "b"}
    )
    ended.failure = "the engine ended\nlast line: \x1b[31mred\x07"
    return ended


def many_groups() -> RunSummary:
    passed = decide(STRICT, records("R " * 60))
    failed = of_group(decide(STRICT, records("C " * 60)), "bad")
    return run(passed, failed, *(of_group(passed, f"g{n}") for n in range(30)))


SHOWN: dict[str, Callable[[], RunSummary]] = {
    "invalid rate passes": lambda: run(
        *(decide(gate, records("R " * 60)) for gate in PAIR)
    ),
    "invalid rate fails": lambda: run(decide(INVALID, records("R " * 60 + "- " * 20))),
    "baseline": with_baseline,
    "benchmarks": with_benchmarks,
    "groups": with_groups,
    "ended early": ended_early,
    "many groups pass": many_groups,
    "everything": everything,
}


def shown(run: RunSummary, width: int = WIDTH, verbosity: int = 0) -> str:
    """What is shown above the reports and the answer."""
    told = list(terminal.lines(run, Path("runs"), width, verbosity))
    told = told[: told.index("run folder runs")]
    assert not re.search(r"[\x00-\x1f]", "".join(told))
    return "\n".join(told)


@pytest.mark.parametrize("verbosity", [0, 1])
@pytest.mark.parametrize("case", SHOWN)
def test_the_table_and_what_is_below(
    case: str, verbosity: int, snapshot: SnapshotAssertion
) -> None:
    assert shown(SHOWN[case](), verbosity=verbosity) == snapshot


@pytest.mark.parametrize("case", SHOWN)
def test_an_id_is_never_cut_and_nothing_follows_it_but_an_error(case: str) -> None:
    run = SHOWN[case]()
    told = [line.partition(": ")[0] for line in shown(run, 40, 1).splitlines()]
    for gate_id in (*run.verdicts, *run.errors):
        assert any(line.endswith(sanitize(gate_id)) for line in told)


@pytest.mark.parametrize(
    ("words", "mark", "colour", "answer"),
    [
        ("R " * 80, "pass", "32", "32"),
        ("R " * 9 + "C", "pass?", "33", "31"),
        ("C " * 50, "FAIL", "1;31", "1;31"),
    ],
)
def test_outcomes_and_the_answer_have_colours_beside_their_words(
    words: str, mark: str, colour: str, answer: str
) -> None:
    found = run(decide(STRICT, records(words)))
    _, gate, *below = terminal.lines(found, Path("runs"), 200, colour=True)
    assert gate.startswith(f"\x1b[{colour}m{mark}\x1b[0m ")
    assert gate.endswith("\x1b[1mbench-rejection_rate\x1b[0m")
    assert any(line.startswith(f"\x1b[{answer}mMay it ship?") for line in below)
