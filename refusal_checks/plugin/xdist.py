"""Everything specific to pytest-xdist.

The controller evaluates and reports once a worker has collected. Workers then run the tests and
read the result from the run's folder. What both must agree on is sent before collection.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

KEY = "refusal_checks"
"""Key of ``workerinput``."""

_SHARED = pytest.StashKey[Mapping[str, str]]()


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def has_workers(config: pytest.Config) -> bool:
    """True in a controller with workers, which collects nothing itself."""
    return config.pluginmanager.has_plugin("dsession")


def shared(config: pytest.Config) -> Mapping[str, str]:
    """Values that all processes of a run share: the controller's, else new ones.

    ``run`` is the name of the run's folder. ``signal`` is a file that a worker creates if it
    collects gates although no option of gates was given; the controller then says what is missing.
    ``signal`` is empty if the controller expects gates.
    """
    if _SHARED not in config.stash:
        # Sessions without workers need not import it.
        from refusal_checks.results.project import new_run_id

        signal = Path(tempfile.gettempdir()) / f"refusal-checks-{uuid4().hex}"
        sent = getattr(config, "workerinput", {}).get(KEY)
        config.stash[_SHARED] = sent or {"run": new_run_id(), "signal": str(signal)}
    return config.stash[_SHARED]


def say_gates(config: pytest.Config) -> None:
    """In a worker, tell the controller about gates that it does not expect."""
    if is_worker(config):
        signal = shared(config)["signal"]
        if signal:
            Path(signal).touch()


def prepare(node: Any, *, expects_gates: bool) -> None:
    """Tell a worker the name of the run, and let it be gone when it gets its tests."""
    expected = {"signal": ""} if expects_gates else {}
    node.workerinput[KEY] = {**shared(node.config), **expected}
    node.sendcommand = _unless_gone(node.sendcommand)


def heard_of_gates(config: pytest.Config) -> bool:
    """True in a controller if a worker has collected gates that were not expected."""
    try:
        Path(shared(config)["signal"]).unlink()
    except OSError:
        return False
    return True


def forget(config: pytest.Config) -> None:
    """Remove the signal file again: several workers may have created it."""
    if has_workers(config) and _SHARED in config.stash:
        heard_of_gates(config)


def rerun(report: pytest.TestReport, sched: Any, crashitem: str) -> None:
    """Run a test once more during which a worker died; report it as skipped."""
    with suppress(NotImplementedError):  # other schedulers do it by themselves
        sched.mark_test_pending(crashitem)
    report.outcome = "skipped"
    file = report.location[0]
    report.longrepr = (file, 0, f"{report.longrepr}; it runs once more")


def _unless_gone(send: Callable[..., None]) -> Callable[..., None]:
    """Send a command to a worker, or drop it if the worker has died.

    xdist learns of a death from a later event of its queue, and then replaces the worker. It does
    not expect one during an evaluation, the only time when the queue waits for long.
    """

    def send_or_drop(name: str, **kwargs: object) -> None:
        with suppress(OSError):
            send(name, **kwargs)

    return send_or_drop


def uncount_failure(config: pytest.Config) -> None:
    """Remove a failure from the count that ends the session at ``--maxfail``."""
    controller: Any = config.pluginmanager.get_plugin("dsession")
    if hasattr(controller, "countfailures"):
        controller.countfailures -= 1
