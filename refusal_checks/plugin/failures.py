"""How pytest shows failed gates: waived ones, short ones, and tracebacks without texts.

A gate that fails under a waiver has neither passed nor failed. Its report stays that of a failed
test, so that no plugin, JUnit file or dashboard takes the gate for passed, and its message begins
with the waiver. Only the counts that decide the exit code, and whether ``-x`` stops, leave it out.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from _pytest._code.code import ExceptionRepr

from refusal_checks.plugin import xdist
from refusal_checks.reports import messages
from refusal_checks.run.session import GateSession, gate_id

_ATTRIBUTE = "refusal_checks_waived"
"""An attribute of reports, which workers send with them."""


def mark(report: pytest.TestReport) -> None:
    """Make a failed test's report that of a waived gate."""
    setattr(report, _ATTRIBUTE, True)


def is_waived(report: object) -> bool:
    """True for the report of a waived gate."""
    return bool(getattr(report, _ATTRIBUTE, False))


class Waived:
    """A plugin of its own, registered where there are gates."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Take the failure off the counts before it is added."""
        if is_waived(report):
            session: Any = self._config.pluginmanager.get_plugin("session")
            session.testsfailed -= 1
            xdist.uncount_failure(self._config)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """The category, the letter and the word of a waived gate."""
        return ("waived", "W", ("WAIVED", {"yellow": True})) if is_waived(report) else None


def shorten(config: pytest.Config, session: GateSession) -> None:
    """Shorten the gates' failures, which pytest is about to print; JUnit has had them in full."""
    verdicts = {
        session.test_id(run.summary.manifest.title, gate): verdict
        for run in session.runs
        for gate, verdict in run.summary.verdicts.items()
    }
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    shown: set[tuple[str, str]] = set()
    for report in reporter.stats.get("failed", ()) if reporter else ():
        verdict = verdicts.get(gate_id(report.nodeid))
        if verdict and str(report.longrepr) == messages.message(verdict):
            report.longrepr = messages.brief_message(verdict, shown)


class Discreet:
    """A plugin of its own, registered where ``--redact`` is given."""

    def __init__(self, config: pytest.Config) -> None:
        config.option.showlocals = config.option.fulltrace = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(
        self, excrepr: ExceptionRepr, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Say where it happened; what the error says may quote a text, in the XML report too."""
        place = excinfo.traceback[-1]
        where = f"{excinfo.typename} in {place.path}:{place.lineno + 1} (--redact hides more)"
        excrepr.toterminal = lambda tw: tw.line(where)  # type: ignore[method-assign]
