"""Failures as a terminal shows them: without statistics, and no prompt twice."""

from __future__ import annotations

from typing import Any

import pytest

from refusal_checks.reports import gate_message
from refusal_checks.run.session import GateSession, gate_id


def shorten(config: pytest.Config, session: GateSession) -> None:
    """Shorten the gates' failures, which pytest is about to print; JUnit has had them in full."""
    verdicts = {
        session.test_id(run.summary.manifest.title, gate): verdict
        for run in session.runs
        for gate, verdict in run.summary.verdicts.items()
    }
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    shown: set[str] = set()
    for report in reporter.stats.get("failed", ()) if reporter else ():
        verdict = verdicts.get(gate_id(report.nodeid))
        if verdict and str(report.longrepr) == gate_message.message(verdict):
            report.longrepr = gate_message.brief(verdict, shown)
