"""Gates that fail under a waiver, as pytest sees them: neither passed nor failed.

The report stays that of a failed test, so that no plugin, JUnit file or dashboard takes the gate
for passed, and its message begins with the waiver. Only the counts by which pytest and xdist find
the exit code, and whether ``-x`` stops, leave it out.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

_ATTRIBUTE = "refusal_checks_waived"
"""An attribute of reports, which xdist carries from its workers."""


def mark(report: pytest.TestReport) -> None:
    """Make a failed test's report that of a waived gate."""
    setattr(report, _ATTRIBUTE, True)


def is_waived(report: object) -> bool:
    """True for the report of a waived gate."""
    return bool(getattr(report, _ATTRIBUTE, False))


class Waived:
    """A plugin of its own, registered where there are gates."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Take the failure off the counts before pytest and xdist add it."""
        if is_waived(report):
            for name, counter in (("session", "testsfailed"), ("dsession", "countfailures")):
                owner: Any = self._plugins.get_plugin(name)
                if hasattr(owner, counter):
                    setattr(owner, counter, getattr(owner, counter) - 1)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """The category, the letter and the word of a waived gate."""
        return ("waived", "W", ("WAIVED", {"yellow": True})) if is_waived(report) else None
