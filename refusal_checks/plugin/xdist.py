"""What is specific to pytest-xdist.

The controller evaluates and reports once a worker has collected. Workers then run the tests and
read the result from the run's folder, whose name the controller sends.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

KEY = "refusal_checks"
"""Key of ``workerinput``."""

_RUN = pytest.StashKey[str]()


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def has_workers(config: pytest.Config) -> bool:
    """True in a controller with workers, which collects nothing itself."""
    return config.pluginmanager.has_plugin("dsession")


def run_id(config: pytest.Config) -> str:
    """The name of the run's folder, which all processes of a session share."""
    if _RUN not in config.stash:
        # Sessions without gates need not import it.
        from refusal_checks.results.project import new_run_id

        sent = getattr(config, "workerinput", {}).get(KEY)
        config.stash[_RUN] = sent or new_run_id()
    return config.stash[_RUN]


def signal(config: pytest.Config) -> Path:
    """A file by which a worker tells the controller that it has collected gates.

    The controller collects nothing, and gates may be collected without any of their options. Before
    tests run, xdist's workers can send only the tests' ids.
    """
    return Path(tempfile.gettempdir()) / f"refusal-checks-{run_id(config)}"


def uncount_failure(config: pytest.Config) -> None:
    """Remove a failure from the count that ends the session at ``--maxfail``.

    The controller has its own count, beside ``session.testsfailed``.
    """
    controller: Any = config.pluginmanager.get_plugin("dsession")
    if hasattr(controller, "countfailures"):
        controller.countfailures -= 1


def survive_worker(node: Any) -> None:
    """Let xdist replace a worker that dies while the controller evaluates.

    xdist ends with an internal error if a worker is gone when it hands out the tests; before that
    an evaluation may take hours.
    """
    send = node.sendcommand

    def send_if_alive(name: str, **values: Any) -> None:
        with suppress(OSError):
            send(name, **values)

    node.sendcommand = send_if_alive
