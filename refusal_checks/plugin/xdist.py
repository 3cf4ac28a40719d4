"""All that this package knows of pytest-xdist.

The controller owns the engines, the evaluation and the reports; workers collect gates and wait for
their verdicts. What both must agree on is sent before anything is collected.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

KEY = "refusal_checks"
"""Key of ``workerinput``."""

_SHARED = pytest.StashKey["Shared"]()


@dataclass(frozen=True)
class Shared:
    """The same in all processes of a run.

    Attributes:
        run: name of the run; folders of runs begin with it.
        signal: file that a worker makes if it collects gates that the controller does not expect,
            because no option of gates was given; the controller then says what is missing. Empty
            if it expects them.
    """

    run: str
    signal: str

    def say_gates(self) -> None:
        """Tell the controller that there are gates, if it does not expect any."""
        if self.signal:
            Path(self.signal).touch()

    def has_gates(self) -> bool:
        """True, once, if a worker collected gates."""
        try:
            Path(self.signal).unlink()
        except OSError:
            return False
        return True

    def as_input(self, *, expects_gates: bool) -> dict[str, str]:
        """For a worker, in a form that xdist can send."""
        return asdict(replace(self, signal="") if expects_gates else self)


def is_worker(config: pytest.Config) -> bool:
    """True in a worker of an xdist run."""
    return hasattr(config, "workerinput")


def shared(config: pytest.Config) -> Shared:
    """What this process shares: as the controller says, else new."""
    if _SHARED not in config.stash:
        sent = getattr(config, "workerinput", {}).get(KEY)
        config.stash[_SHARED] = Shared(**sent) if sent else _new()
    return config.stash[_SHARED]


def _new() -> Shared:
    name = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.getpid()}"
    return Shared(name, str(Path(tempfile.gettempdir()) / f"refusal-checks-{uuid4().hex}"))


class Controller:
    """A plugin of every session: what the process does that starts workers, if it does.

    Args:
        is_active: whether gates or their options are known already.
        start: starts the runs that tests need, by their ids.
    """

    def __init__(
        self, is_active: Callable[[], bool], start: Callable[[Sequence[str]], None]
    ) -> None:
        self._is_active = is_active
        self._start = start

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where outcomes are published."""
        node.workerinput[KEY] = shared(node.config).as_input(expects_gates=self._is_active())

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Start the runs: all workers collect the same gates, so the first one's are enough."""
        if self._is_active() or shared(node.config).has_gates():
            self._start(ids)


class Crashes:
    """A plugin of the controller: a worker that dies says nothing about the gate it waited for.

    Args:
        is_gate: whether a test, by its id, is one of a gate or of the judge.
    """

    def __init__(self, config: pytest.Config, is_gate: Callable[[str], bool]) -> None:
        self._config = config
        self._is_gate = is_gate
        self._again: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """Wait for the verdict again, once, and report the test as skipped until then.

        If its next worker dies too, or no other worker takes it over (``--dist each``), it is an
        error.
        """
        if not self._is_gate(crashitem):
            return
        report.when = "setup"  # a failure there is an error
        if crashitem in self._again or self._config.getoption("dist") == "each":
            return
        self._again.add(crashitem)
        with suppress(NotImplementedError):  # other schedulers do it by themselves
            sched.mark_test_pending(crashitem)
        report.outcome = "skipped"
        report.longrepr = (report.location[0], 0, f"{report.longrepr}; it runs once more")


def uncount_failure(config: pytest.Config) -> None:
    """Take a failure off the count by which the controller ends a session at ``--maxfail``."""
    controller: Any = config.pluginmanager.get_plugin("dsession")
    if hasattr(controller, "countfailures"):
        controller.countfailures -= 1
