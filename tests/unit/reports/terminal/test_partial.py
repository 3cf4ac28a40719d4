"""What a run that was broken off has done."""

from __future__ import annotations

from pathlib import Path

from refusal_checks.reports.terminal.partial import lines
from refusal_checks.results.progress import Progress
from refusal_checks.results.summary import RunSummary

STORE = Path("store.sqlite")


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


def test_a_broken_off_run_says_what_is_done_and_how_to_go_on() -> None:
    assert list(lines(progress(False), RunSummary(), 4, STORE, fresh=False)) == [
        "first: complete, 2 prompts",
        "second: 1 of 3 prompts answered, 0 judged",
        "0 of 4 gates decided",
        "run the same command again to go on from here: store.sqlite holds what is done",
    ]


def test_a_fresh_run_names_its_own_store() -> None:
    *_, last = lines(progress(False), RunSummary(), 1, STORE, fresh=True)
    assert "--store store.sqlite instead of --fresh" in last


def test_of_a_complete_run_or_one_that_never_began_nothing_is_said() -> None:
    assert list(lines(progress(True), RunSummary(), 4, STORE, fresh=False)) == []
    assert list(lines(Progress(), RunSummary(), 4, STORE, fresh=False)) == []
