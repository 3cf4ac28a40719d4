"""What the figures were found with, what an interrupted run has done, and how to continue it."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusal_checks.models.client.answers import Usage
from refusal_checks.reports.terminal import WIDTH
from refusal_checks.reports.terminal.footer import footer, tokens, unfinished
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.progress import Progress
from refusal_checks.results.summary import RunSummary, summarise
from refusal_checks.run.manifest import facts
from tests.unit.reports.test_explain import Many

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
