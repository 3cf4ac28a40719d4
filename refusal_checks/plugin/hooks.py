"""pytest's hooks in a session with gates: parametrisation and the evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest
from _pytest._code.code import ExceptionRepr
from _pytest.mark.structures import ParameterSet

from refusal_checks.plugin import options, xdist
from refusal_checks.plugin.gate_session import GateSession
from refusal_checks.plugin.live import Live
from refusal_checks.plugin.outcomes import Outcomes
from refusal_checks.plugin.parameters import (
    FIGURE,
    GATE,
    Parameters,
    of_item,
)
from refusal_checks.plugin.session_end import SessionEnd
from refusal_checks.results.redact import is_redacted


class Gates:
    """The main plugin, registered once a gate is collected or an option of gates is given.

    It comes with two others: ``Outcomes`` and ``SessionEnd``.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._session = GateSession(config)
        self._parameters = Parameters(config, self._session)
        self.outcomes = Outcomes(config, self._session)
        self.end = SessionEnd(config, self._session, self.outcomes)
        self.is_gate = self._session.is_gate
        self.check_files = self._session.check_files
        self._redacts = False
        self._fault: pytest.UsageError | None = None
        if is_redacted("redact" in options.given(config)):
            self._redact()

    def _redact(self) -> None:
        """Keep pytest from showing the values of variables, which may be private texts."""
        self._redacts = True
        self.config.option.showlocals = False
        self.config.option.fulltrace = False

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise a test with its gates or figures.

        An error in a run file is raised later, in a hook where pytest reports it as a usage error.
        """
        xdist.say_gates(self.config)
        gates: list[ParameterSet] = []
        figures: list[ParameterSet] = []
        try:
            is_ours = "refusal_require_pass" in metafunc.fixturenames
            gates = self._parameters.gates(with_measured=is_ours)
            figures = self._parameters.figures()
        except pytest.UsageError as fault:
            self._fault = fault
        else:
            if self._session.spec.reports.redact:  # a run file may ask for it, too
                self._redact()
        if FIGURE in metafunc.fixturenames:
            metafunc.parametrize(FIGURE, figures)
        if "refusal_verdict" in metafunc.fixturenames:
            metafunc.parametrize(GATE, gates)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the judge's test if no floors are set."""
        if self._fault and not xdist.is_worker(self.config):
            raise self._fault
        items[:] = [item for item in items if of_item(item).get(FIGURE, "") is not None]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Evaluate in this process once the gates are selected."""
        option = session.config.option
        if option.collectonly or self.config.getoption("setupplan", False):
            return
        if session.testsfailed and not option.continue_on_collection_errors:
            return
        if xdist.has_workers(self.config):  # see ``xdist.Controller``
            return
        self.start([item.nodeid for item in session.items])

    def start(self, nodeids: Sequence[str]) -> None:
        """Evaluate what the selected tests need. See ``GateSession.evaluate``."""
        self._session.require_named(nodeids)
        if xdist.is_worker(self.config):
            return
        live = Live(self.config)
        try:
            # A library's warning must not end an evaluation, even in a project that turns warnings
            # into errors.
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                self._session.evaluate(nodeids, live.see)
        finally:
            live.stop()

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(
        self, excrepr: ExceptionRepr, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Under ``--redact``, report only where an error occurred: its message may quote a text."""
        if self._redacts:
            place = excinfo.traceback[-1]
            where = f"{excinfo.typename} in {place.path}:{place.lineno + 1} (--redact hides more)"
            excrepr.toterminal = lambda tw: tw.line(where)  # type: ignore[method-assign]
