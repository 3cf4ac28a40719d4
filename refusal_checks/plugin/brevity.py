"""Failures as a terminal shows them: without statistics, and no prompt twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports import gate_message
from refusal_checks.run.session import gate_id


def shorten(config: pytest.Config, verdicts: Mapping[str, Verdict]) -> None:
    """Shorten the gates' failures, which pytest is about to print; JUnit has had them in full.

    Args:
        verdicts: by the id of the test.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    shown: set[str] = set()
    for report in reporter.stats.get("failed", ()) if reporter else ():
        verdict = verdicts.get(gate_id(report.nodeid))
        if verdict and str(report.longrepr) == gate_message.message(verdict):
            report.longrepr = gate_message.brief(verdict, shown)
