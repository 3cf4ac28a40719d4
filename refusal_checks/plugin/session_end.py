"""The end of a session with gates: exit code, report files, and the terminal's summary."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from refusal_checks.plugin import junit_entries, xdist
from refusal_checks.plugin.gate_session import GateSession, gate_id
from refusal_checks.plugin.outcomes import Outcomes
from refusal_checks.reports import markdown, terminal
from refusal_checks.reports.wording import failures
from refusal_checks.reports.wording.release import WRONG_INPUT, explains


class SessionEnd:
    """A plugin that is registered with ``Gates``."""

    def __init__(
        self, config: pytest.Config, session: GateSession, outcomes: Outcomes
    ) -> None:
        self._config = config
        self._session = session
        self._outcomes = outcomes
        self._written: list[str] = []
        self._is_input_wrong = False

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(
        self, session: pytest.Session
    ) -> Generator[None, None, None]:
        """Set the exit code, then write the report files.

        Workers do neither: they would write and send all reports again.
        """
        if not xdist.is_worker(self._config):
            self._finish(session)
        yield
        # syrupy combines exit codes by "or": of 4 and pytest's own 1 it makes 5.
        if self._is_input_wrong and session.exitstatus == WRONG_INPUT | 1:
            session.exitstatus = WRONG_INPUT

    def _finish(self, session: pytest.Session) -> None:
        self._leave_open(int(session.exitstatus))
        # Tests that are skipped or left out fail nothing; what they would have decided is open.
        if not session.exitstatus:
            session.exitstatus = self._exit_code()
        has_failed = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        if has_failed and self._exit_code() == WRONG_INPUT:
            self._is_input_wrong = True
            session.exitstatus = WRONG_INPUT
        if not session.exitstatus and self._lacks_gates():
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        run = self._session.run
        if run:
            self._written = list(
                self._session.result().write_reports(self._session.spec.reports)
            )
        is_stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
        left = [*self._left()] if is_stopped else []
        junit_entries.complete(self._config, run.summary if run else None, left)
        if run:
            self._written += junit_entries.keep_whole(self._config)
        # Without a terminal reporter there is no such option.
        if self._config.getoption("verbose", 1) < 1:
            self._shorten()

    def _exit_code(self) -> int:
        """The exit code of the answer; 0 for a run without gates, which only checks the judge."""
        run = self._session.run
        if run is None or not run.summary.manifest.gates.selected:
            return 0
        return run.decision.exit_code

    def _leave_open(self, exit_code: int) -> None:
        """Mark the run as undecided if it does not explain a non-zero exit code of pytest.

        A failed test that its verdicts, errors or judge explain is already part of its answer.
        """
        run = self._session.run
        if run is None:
            return
        gates = {gate.id for gate in self._session.spec.gates}
        unexplained = []
        for nodeid, phase in self._outcomes.failed.items():
            name = gate_id(nodeid)
            asked = name if name in gates else None
            if not explains(run.summary, asked, phase):
                unexplained.append(
                    f"fix or deselect {nodeid}: it failed, and no verdict says why"
                )
        if not run.folder.has_begun:
            unexplained.append(
                f"run it again: its folder {run.folder.path} was removed"
            )
        if unexplained:
            run.leave_open(unexplained)
        explained = (pytest.ExitCode.TESTS_FAILED, WRONG_INPUT)
        has_gates = bool(run.summary.manifest.gates.selected)
        if exit_code and has_gates and self._exit_code() not in explained:
            run.leave_open([_why_ended(exit_code)])

    def _lacks_gates(self) -> bool:
        """True if this call names a candidate but selected no gate."""
        if self._session.run or xdist.is_worker(self._config):
            return False
        words = self._config.invocation_params.args
        named = any(word.startswith("--refusal-candidate") for word in words)
        return named and not self._config.option.collectonly

    def _shorten(self) -> None:
        """Shorten the failures that pytest is about to print; JUnit already has them in full."""
        run = self._session.run
        verdicts = run.summary.verdicts if run else {}
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        shown: set[tuple[str, str]] = set()
        for report in reporter.stats.get("failed", ()) if reporter else ():
            verdict = verdicts.get(gate_id(report.nodeid))
            if verdict and str(report.longrepr) == failures.message(verdict):
                report.longrepr = failures.brief_message(verdict, shown)
                # Without it, in CI pytest repeats whole messages in its short summary.
                self._config.option.force_short_summary = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: Any, exitstatus: int
    ) -> Generator[None, None, None]:
        """Print the table of gates and the decision below the output of pytest and its plugins."""
        yield
        session: Any = self._config.pluginmanager.get_plugin("session")
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            for text in self._session.unselected():
                terminalreporter.write_line(text)
        run = self._session.run
        if run is None:
            return
        terminalreporter.write_sep("=", "refusal checks")
        for text in markdown.workflow_commands(run.summary):
            terminalreporter.write_line(text)
        writer = self._config.get_terminal_writer()
        width = terminal.fitting(writer.fullwidth)
        verbosity = max(0, self._config.option.verbose)
        notes = (*self._left(), *self._written)
        colour = terminalreporter.hasmarkup
        folder = run.folder.path
        for line in terminal.lines(
            run.summary, folder, width, verbosity, notes, colour
        ):
            terminalreporter.write_line(line)

    def _left(self) -> Iterator[str]:
        """Lines on what an interrupted run has left to do."""
        is_fresh = self._session.spec.store.fresh
        run = self._session.underway
        if run:
            yield from terminal.unfinished(
                run.progress, run.summary, len(run.gates), is_fresh
            )


def _why_ended(exit_code: int) -> str:
    if exit_code == pytest.ExitCode.INTERRUPTED:
        return "run it again: it was interrupted"
    return f"see above why pytest ended with exit code {exit_code}: no gate failed"
