"""Which of several runs is shown as the one that goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from refusal_checks.core.errors import EngineStartError
from refusal_checks.results.progress import Progress
from refusal_checks.run.series import Series


class Stub:
    """A run that is over as soon as it is started, or that does not start."""

    def __init__(self, name: str, fault: Exception | None = None) -> None:
        self.options = SimpleNamespace(candidate=SimpleNamespace(name=name))
        self.progress = Progress(phase=name)
        self.failed: BaseException | None = None
        self._fault = fault

    def start(self) -> None:
        if self._fault:
            raise self._fault

    def fail(self, fault: BaseException) -> None:
        self.failed = fault

    def join(self) -> None: ...

    def stop_engines(self) -> None: ...

    def close(self) -> None: ...

    def is_alive(self) -> bool:
        return False


def series(*runs: Stub) -> Series:
    stubs: Any = runs
    return Series(stubs)


def test_a_single_run_needs_no_title() -> None:
    title, progress = series(Stub("one")).current
    assert (title, progress.phase) == ("", "one")


def follow(runs: Series) -> None:
    """Start the first run and wait for the others."""
    runs.start()
    assert runs._thread is not None
    runs._thread.join()


def test_the_last_run_that_began_is_the_one_that_goes_on() -> None:
    runs = series(Stub("one"), Stub("two"))
    assert runs.current[0] == "one (1 of 2)"
    follow(runs)
    title, progress = runs.current
    assert (title, progress.phase) == ("two (2 of 2)", "two")
    runs.close()


@pytest.mark.parametrize("fault", [EngineStartError("no"), PermissionError("no")])
def test_a_run_that_does_not_start_says_so_and_the_next_one_follows(fault: Exception) -> None:
    two, three = Stub("two", fault), Stub("three")
    runs = series(Stub("one"), two, three)
    follow(runs)
    assert two.failed is fault
    assert runs.current[0] == "three (3 of 3)"
    assert three.failed is None
    runs.close()


def test_of_several_runs_the_first_one_may_fail_too() -> None:
    one, two = Stub("one", EngineStartError("no")), Stub("two")
    runs = series(one, two)
    follow(runs)
    assert isinstance(one.failed, EngineStartError)
    assert runs.current[0] == "two (2 of 2)"
    runs.close()


def test_an_only_run_that_does_not_start_ends_the_session() -> None:
    with pytest.raises(EngineStartError):
        series(Stub("one", EngineStartError("no"))).start()
