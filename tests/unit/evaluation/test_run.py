"""Runs in turn: which one is shown, and what a run that does not start means for the others."""

import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from refusal_checks.core.errors import EngineStartError, StoreError
from refusal_checks.evaluation.run import Run, Series
from refusal_checks.results.progress import Progress


class Stub:
    """A run that ends as soon as it is evaluated, or that does not start."""

    def __init__(self, name: str, fault: Exception | None = None) -> None:
        self.candidate = name
        self.progress = Progress(phase=name)
        self.failed: BaseException | None = None
        self.calls: list[str] = []
        self.collector: tuple[int, ...] = ()
        self._fault = fault

    def open(self, before: Any) -> None:
        self.before = before
        if self._fault and not isinstance(self._fault, EngineStartError):
            raise self._fault

    def evaluate(self, started: Callable[[], None]) -> None:
        if self._fault:
            raise self._fault
        started()
        self.calls.append("evaluate")
        self.collector = gc.get_threshold()

    def load_early(self, before: Any) -> None:
        self.calls.append(f"load beside {before.candidate}")

    def fail(self, fault: BaseException) -> None:
        self.failed = fault

    def cancel(self) -> None:
        self.calls.append("cancel")

    def finish(self, *, keep_engines: bool = False) -> None:
        self.calls.append("finish but for engines" if keep_engines else "finish")

    def stop_engines(self) -> None:
        self.calls.append("stop engines")


def series(*runs: Stub) -> Series:
    stubs: Any = runs
    return Series(stubs)


def follow(runs: Series) -> None:
    """Start the runs and wait for the last one."""
    runs.start()
    runs._thread.join()


def test_the_last_run_that_began_is_the_one_that_goes_on() -> None:
    one, two = Stub("one"), Stub("two")
    runs = series(one, two)
    assert runs.current[0] == "one (1 of 2)"
    follow(runs)
    title, progress = runs.current
    assert (title, progress.phase) == ("two (2 of 2)", "two")
    assert one.calls == ["evaluate", "finish but for engines"]
    assert two.calls == ["load beside one", "evaluate", "finish"]
    assert two.before is one
    runs.close()


@pytest.mark.parametrize("fault", [EngineStartError("no"), PermissionError("no")])
def test_a_run_that_does_not_start_says_so_and_the_next_one_follows(fault: Exception) -> None:
    one, two, three = Stub("one"), Stub("two", fault), Stub("three")
    runs = series(one, two, three)
    follow(runs)
    assert two.failed is fault
    assert one.calls[-1] == "stop engines", "the next run did not take them over"
    assert two.calls == ["load beside one", "stop engines", "finish but for engines"]
    assert three.calls[0] == "evaluate", "nothing loads beside a run that does not start"
    assert runs.current[0] == "three (3 of 3)"
    assert three.failed is None
    runs.close()


def test_of_several_runs_the_first_one_may_fail_too() -> None:
    one, two = Stub("one", EngineStartError("no")), Stub("two")
    follow(series(one, two))
    assert isinstance(one.failed, EngineStartError)
    assert "evaluate" in two.calls


@pytest.mark.parametrize(
    ("fault", "others"), [(EngineStartError("no"), ()), (StoreError("no"), (Stub("two"),))]
)
def test_what_keeps_the_first_run_from_starting_ends_the_session(
    fault: Exception, others: tuple[Stub, ...]
) -> None:
    runs = series(Stub("one", fault), *others)
    with pytest.raises(type(fault)):
        runs.start()
    runs.close()
    assert not any("evaluate" in other.calls for other in others)


def test_a_single_run_needs_no_title_and_can_be_closed_before_it_starts() -> None:
    run = Stub("one")
    runs = series(run)
    assert (runs.current[0], runs.current[1].phase) == ("", "one")
    runs.close()
    assert run.calls == ["cancel", "finish"]


def test_what_keeps_the_next_run_from_loading_early_is_no_fault_of_this_one() -> None:
    def gone(*_: object) -> None:
        raise FileNotFoundError("the next checkpoint")

    stub: Any = SimpleNamespace(_engines=SimpleNamespace(load_early=gone), _run=Stub("two"))
    stub._run.say = print
    Run.load_early(stub, stub)


def test_the_garbage_collector_runs_rarely_during_runs_alone() -> None:
    usual, run = gc.get_threshold(), Stub("one")
    follow(series(run))
    assert run.collector > usual
    assert gc.get_threshold() == usual
