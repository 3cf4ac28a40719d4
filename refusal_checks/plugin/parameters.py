"""Parameters of tests, with their markers: the gates, and the figures of the judge's check."""

from __future__ import annotations

import re
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from refusal_checks.plugin.gate_session import GateSession

GATE, FIGURE = "refusal_gate", "refusal_judge_figure"
"""Names of the parameters."""

_NOTE = "gates of refusal-checks"


class Parameters:
    """Makes the parameters from the run files alone, without data or engines."""

    def __init__(self, config: pytest.Config, session: GateSession) -> None:
        self._config = config
        self._session = session

    def gates(self, *, with_measured: bool) -> list[ParameterSet]:
        """Parameters with a gate for each test, or the name of a benchmark that has none."""
        session = self._session
        params = []
        for gate in session.spec.gates:
            marks = self._marks(session.benchmarks[gate.benchmark].kind)
            params.append(pytest.param(gate, id=gate.id, marks=marks))
        if with_measured:
            for key, name in session.spec.measured.items():
                marks = self._marks(session.benchmarks[name].kind)
                params.append(pytest.param(name, id=key, marks=marks))
        return params

    def figures(self) -> list[ParameterSet]:
        """Parameters with a figure of the judge's check for each test; None without floors."""
        marks = self._marks("judge")
        figures = self._session.judge_figures or (None,)
        return [pytest.param(name, id=name or "none", marks=marks) for name in figures]

    def _marks(self, kind: str) -> list[pytest.MarkDecorator]:
        """The markers of a gate's test: ``refusal_safety`` and ``safety``.

        The short one is left to the repository if its configuration declares it.
        """
        declared = self._config.getini("markers")
        own = {
            re.split(r"[:(]", line)[0].strip() for line in declared if _NOTE not in line
        }
        names = [f"refusal_{kind}"]
        if str(kind) not in own:
            names.append(str(kind))
        for name in names:
            line = f"{name}: {_NOTE} ({kind})"
            if line not in declared:
                self._config.addinivalue_line("markers", line)
        # A doubt stays a warning in a project that turns warnings into errors.
        visible = pytest.mark.filterwarnings(
            "default::refusal_checks.plugin.InconclusiveWarning"
        )
        return [*(getattr(pytest.mark, name) for name in names), visible]


def of_item(item: pytest.Item) -> dict[str, Any]:
    """The parameters of a test; empty if it has none."""
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}
