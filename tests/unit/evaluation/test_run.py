"""A run from its first step to its last: what is stopped and written when it ends early."""

import gc

import pytest

from refusal_checks.core.errors import EngineStartError, StoreError
from refusal_checks.evaluation.run import Run


class Stub(Run):
    """A run that ends as soon as it is evaluated, or that does not start."""

    def __init__(self, fault: BaseException | None = None) -> None:
        self.calls: list[str] = []
        self.collector: tuple[int, ...] = ()
        self._fault = fault

    def open(self) -> None:
        self.calls.append("open")

    def evaluate(self) -> None:
        self.collector = gc.get_threshold()
        if self._fault:
            raise self._fault

    def finish(self) -> None:
        self.calls.append("finish")

    def stop_engines(self) -> None:
        self.calls.append("stop")


@pytest.mark.parametrize(
    "fault", [EngineStartError("no"), StoreError("no"), KeyboardInterrupt()]
)
def test_a_run_that_does_not_start_has_a_summary_and_no_engine(
    fault: BaseException,
) -> None:
    run = Stub(fault)
    with pytest.raises(type(fault)):
        run.work()
    assert run.calls == ["open", "stop", "finish"]


def test_the_garbage_collector_runs_rarely_during_a_run_alone() -> None:
    usual, run = gc.get_threshold(), Stub()
    run.work()
    assert run.collector > usual
    assert gc.get_threshold() == usual
