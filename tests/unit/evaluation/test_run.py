"""Runs in turn: what a run that does not start means for the others, and what is stopped when."""

import gc
from typing import Any

import pytest

from refusal_checks.core.errors import EngineStartError, StoreError
from refusal_checks.evaluation.run import evaluate_in_turn


class Stub:
    """A run that ends as soon as it is evaluated, or that does not start."""

    def __init__(self, name: str, fault: BaseException | None = None) -> None:
        self.name = name
        self.failed: BaseException | None = None
        self.before: Stub | None = None
        self.calls: list[str] = []
        self.collector: tuple[int, ...] = ()
        self._fault = fault

    def open(self, before: "Stub | None") -> None:
        self.before = before
        if self._fault and not isinstance(
            self._fault, EngineStartError | KeyboardInterrupt
        ):
            raise self._fault

    def evaluate(self) -> None:
        if self._fault:
            raise self._fault
        self.calls.append("evaluate")
        self.collector = gc.get_threshold()

    def fail(self, fault: BaseException) -> None:
        self.failed = fault

    def finish(self, *, keep_engines: bool = False) -> None:
        if "finish" not in " ".join(self.calls):
            self.calls.append("finish but for engines" if keep_engines else "finish")

    def stop_engines(self) -> None:
        if self.calls[-1:] != ["stop"]:
            self.calls.append("stop")


def evaluate(*runs: Stub) -> None:
    stubs: Any = runs
    evaluate_in_turn(stubs)


def test_engines_go_on_for_the_next_run_and_stop_with_the_last() -> None:
    one, two = Stub("one"), Stub("two")
    evaluate(one, two)
    assert one.calls == ["evaluate", "finish but for engines", "stop"]
    assert two.calls == ["evaluate", "finish", "stop"]
    assert two.before is one


@pytest.mark.parametrize("fault", [EngineStartError("no"), PermissionError("no")])
def test_a_run_that_does_not_start_says_so_and_the_next_one_follows(
    fault: Exception,
) -> None:
    one, two, three = Stub("one"), Stub("two", fault), Stub("three")
    evaluate(one, two, three)
    assert two.failed is fault
    assert one.calls[-1] == "stop", "the next run did not take them over"
    assert two.calls == ["stop", "finish but for engines", "stop"]
    assert three.calls[0] == "evaluate"
    assert three.failed is None


@pytest.mark.parametrize(
    ("fault", "others"),
    [
        (EngineStartError("no"), ()),
        (StoreError("no"), (Stub("two"),)),
        (KeyboardInterrupt(), (Stub("two"),)),
    ],
)
def test_what_keeps_the_first_run_from_starting_ends_all(
    fault: BaseException, others: tuple[Stub, ...]
) -> None:
    one = Stub("one", fault)
    with pytest.raises(type(fault)):
        evaluate(one, *others)
    for run in (one, *others):
        assert run.calls == ["stop", "finish"], "each has a summary"


def test_the_garbage_collector_runs_rarely_during_runs_alone() -> None:
    usual, run = gc.get_threshold(), Stub("one")
    evaluate(run)
    assert run.collector > usual
    assert gc.get_threshold() == usual
