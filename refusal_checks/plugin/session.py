"""A pytest session with gates: when it evaluates, and how tests and exit code get the result.

One process evaluates: the only one, or xdist's controller.

=============  ================================================  =======================
process        evaluates                                         the result
=============  ================================================  =======================
plain run      once tests are collected, before the first runs   what ``evaluate`` gives
controller     once a worker has collected                       (runs no test)
worker         never                                             from the run's folder
=============  ================================================  =======================
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr
from _pytest.junitxml import xml_key

from refusal_checks.benchmarks import Benchmark
from refusal_checks.config import toml_file
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core.errors import DataError, EngineStartError
from refusal_checks.core.text import sanitize_lines
from refusal_checks.plugin import (
    collection,
    configuration,
    options,
    outcomes,
    session_end,
    xdist,
)
from refusal_checks.plugin.progress_display import ProgressDisplay
from refusal_checks.reports import markdown, terminal
from refusal_checks.results.events import Notice, Prepared
from refusal_checks.results.redact import is_redacted
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.trust.minimums import Figure

if TYPE_CHECKING:
    from refusal_checks.api.result import RunResult
    from refusal_checks.results.events import Event, Listener

EXIT_ENGINE = 16
"""Exit code of a session that ended because an engine did not start."""

# pytest prints the exception's name with its module, except for built-in ones: "! Stopped: ...".
_Stopped: type[Exception] = type(
    "Stopped", (pytest.exit.Exception,), {"__module__": "builtins"}
)


@contextmanager
def _own_event_loops() -> Iterator[None]:
    """Leave asyncio as it was: the repository's tests may expect a loop in the main thread.

    After ``asyncio.run`` there is none, and ``get_event_loop`` no longer makes one.
    """
    policy = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    try:
        yield
    finally:
        asyncio.set_event_loop_policy(policy)


class GateSession:
    """The hooks of a session with gates, registered by the first gate or option of gates."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._result: RunResult | None = None
        self._prepared: Prepared | None = None
        self._has_evaluated = False
        self._fault: pytest.UsageError | None = None
        self._remarks: list[str] = []
        self._redacts = False
        if is_redacted("redact" in options.option_values(config)):
            self._redact()

    def _redact(self) -> None:
        """Keep pytest from showing variables' values, which may be private texts."""
        self._redacts = True
        self._config.option.showlocals = False
        self._config.option.fulltrace = False

    @cached_property
    def spec(self) -> RunSpec:
        return configuration.read_spec(self._config)

    @cached_property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """All benchmarks that gates may use; reads run files that are named."""
        with configuration.usage_errors():
            return self.spec.catalogue()

    @cached_property
    def _figures(self) -> tuple[Figure, ...]:
        return collection.judge_figures(self.spec, self.benchmarks)

    # Collection

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise a test with its gates or with the figures of the judge's check."""
        config, fixtures = self._config, metafunc.fixturenames
        if xdist.is_worker(config):
            xdist.signal(config).touch()
        gates, figures = [], []
        # Only the package's own test has a use for a benchmark that is measured without a gate.
        has_measured = "refusal_require_pass" in fixtures
        try:
            gates = collection.gate_parameters(
                config, self.spec, self.benchmarks, has_measured
            )
            figures = collection.figure_parameters(config, self._figures)
            if self.spec.reports.redact:  # a run file may ask for it, too
                self._redact()
        except pytest.UsageError as fault:
            # Here pytest would report an error of collection; the next hook raises it as it is.
            self._fault = fault
        if collection.FIGURE in fixtures:
            metafunc.parametrize(collection.FIGURE, figures)
        if "refusal_verdict" in fixtures:
            metafunc.parametrize("refusal_gate", gates)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Raise an error in a run file, if any; remove the judge's test if it has no minimums.

        The controller reads the run files again, so workers say nothing.
        """
        if self._fault and not xdist.is_worker(self._config):
            raise self._fault
        items[:] = [item for item in items if not collection.lacks_figure(item)]

    # Evaluation

    # Before pytest's own implementation, which runs the tests.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Evaluate in this process once the gates are selected."""
        option = self._config.option
        if option.collectonly or self._config.getoption("setupplan", False):
            return
        if session.testsfailed and not option.continue_on_collection_errors:
            return
        if not xdist.has_workers(self._config):  # a controller starts later
            self.start([item.nodeid for item in session.items])

    def start(self, nodeids: Collection[str]) -> None:
        """Evaluate what the selected tests need, once. Does nothing if they need nothing."""
        if self._has_evaluated or xdist.is_worker(self._config):
            return
        gates = collection.selected_gates(nodeids, self.spec, self._figures)
        if gates is None:
            return
        self._has_evaluated = True
        display = ProgressDisplay(self._config)
        try:
            # A library's warning must not end an evaluation, even in a project that turns warnings
            # into errors.
            with warnings.catch_warnings(), _own_event_loops():
                warnings.simplefilter("default")
                self._evaluate(gates, display.show)
        finally:
            display.stop()

    def _evaluate(self, gates: Collection[str], listener: Listener) -> None:
        """Evaluate gates. An interrupt, or an engine that does not start, ends the session."""
        config = self._config
        missing_file = ""
        is_shipped = self.spec.files == (toml_file.DEFAULT,)
        if is_shipped and not configuration.named_files(config):
            # In a wrong folder, other gates than one's own would decide without a word.
            shipped = (
                f"no thresholds/default.toml in {config.rootpath}: these gates come with "
                "refusal-checks"
            )
            listener(Notice(shipped))
            option = f"{options.prefix(config)}thresholds FILE"
            missing_file = f"name your run file with {option}: {shipped}"

        def listen(event: Event) -> None:
            if isinstance(event, Prepared):
                self._prepared = event
            listener(event)

        try:
            # HTTP and templates, which collection need not import
            from refusal_checks.api.evaluate import evaluate

            with configuration.usage_errors(missing_file):
                self._result = evaluate(
                    self.spec,
                    listen,
                    gates=gates,
                    run_id=xdist.run_id(config),
                    folders=configuration.run_folders(config, self.spec),
                    write_reports=False,
                )
        except KeyboardInterrupt as stopped:
            # pytest would print the line of our code that was interrupted.
            self._result = getattr(stopped, "result", None)
            why = "interrupted before anything was asked"
            if self._result:
                why = "interrupted; see below what was done"
            raise _Stopped(why, pytest.ExitCode.INTERRUPTED) from None
        except EngineStartError as fault:
            self._result = getattr(fault, "result", None)
            raise _Stopped(sanitize_lines(str(fault)), EXIT_ENGINE) from None

    def result(self) -> RunResult:
        """The result of the evaluation, else a failure; a worker reads it from the run's folder."""
        if self._result is None and xdist.is_worker(self._config):
            self._result = self._load()
        if self._result is None:
            raise outcomes.failure(
                "select gates beside this test: no gate of this session was evaluated"
            )
        return self._result

    def _load(self) -> RunResult | None:
        """Load the result that the controller wrote; None if it evaluated nothing."""
        from refusal_checks.api.result import RunResult

        folders = configuration.run_folders(self._config, self.spec)
        path = folders.runs / xdist.run_id(self._config)
        if not path.exists():
            return None
        try:
            result = RunResult.load(path)
        except DataError as fault:
            raise outcomes.failure(f"run it again: {fault}") from None
        if not RunFolder(path).has_ended:
            raise outcomes.failure(f"run it again: no summary was written in {path}")
        return result

    # Reports of tests

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        outcomes.mark(item, report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Leave a waived gate out of the failures that decide the exit code and stop ``-x``.

        pytest counts a failure inside this hook and has none to take one back, so the count is
        lowered before.
        """
        if outcomes.is_waived(report):
            session: Any = self._config.pluginmanager.get_plugin("session")
            session.testsfailed -= 1
            xdist.uncount_failure(self._config)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Return category, letter and word of a waived gate."""
        if outcomes.is_waived(report):
            return "waived", "W", ("WAIVED", {"yellow": True})
        return None

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(
        self, crashitem: str, report: pytest.TestReport, sched: Any
    ) -> None:
        """Make a worker's crash an error of the test: it says nothing about the gate.

        xdist reports it as a failure; pytest calls a failure an error if it is one of set-up.
        """
        if collection.selected_gates([crashitem], self.spec, self._figures) is not None:
            report.when = "setup"

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(
        self, excrepr: ExceptionRepr, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """With ``--redact``, report only where an error occurred: its message may quote a text."""
        if self._redacts:
            place = excinfo.traceback[-1]
            where = f"{excinfo.typename} in {place.path}:{place.lineno + 1} (--redact hides more)"
            excrepr.toterminal = lambda tw: tw.line(where)  # type: ignore[method-assign]

    # End

    # trylast makes this the innermost wrapper: the terminal's prints after it, whatever happened to
    # the JUnit file, which is written within.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(
        self, session: pytest.Session
    ) -> Generator[None, None, None]:
        """Set the exit code, then write the report files.

        Workers do neither: they would write and send all reports again.
        """
        if xdist.is_worker(self._config):
            return (yield)
        session_end.set_exit_code(session, self._result)
        if self._result:
            self._remarks += self._result.write_reports(self.spec.reports)
            session_end.shorten_messages(self._config, self._result.summary)
        unfinished = self._unfinished_work()
        xml: Any = self._config.stash.get(xml_key, None)
        if xml:
            is_stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
            session_end.complete_junit(
                xml, self._result, unfinished if is_stopped else []
            )
        self._remarks[:0] = unfinished
        try:
            return (yield)
        except OSError as fault:
            if not xml:
                raise
            # A full disk; pytest would end with an internal error and without the table of gates.
            self._remarks.append(f"{xml.logfile} could not be written: {fault}")

    def _unfinished_work(self) -> list[str]:
        """Lines on what is left to do after an interruption."""
        if not (self._prepared and self._result):
            return []
        gates, fresh = len(self._prepared.gates), self.spec.store.fresh
        progress, summary = self._prepared.progress, self._result.summary
        return [*terminal.unfinished_work(progress, summary, gates, fresh)]

    # tryfirst makes this the outermost wrapper: the answer stands below what others print.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: Any
    ) -> Generator[None, None, None]:
        """Print the table of gates and the decision, or what can be selected if no test was."""
        yield
        option, result = self._config.option, self._result
        lines: list[str] = []
        session: Any = self._config.pluginmanager.get_plugin("session")
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            ids = [*self._figures, *self.spec.ids]
            lines += collection.explain_no_tests(option.keyword, option.markexpr, ids)
        if result:
            terminalreporter.write_sep("=", "refusal checks")
            lines += markdown.workflow_commands(result.summary)
            lines += terminal.lines(
                result.summary,
                result.folder,
                terminal.usable_width(self._config.get_terminal_writer().fullwidth),
                max(0, option.verbose),
                self._remarks,
                terminalreporter.hasmarkup,
            )
        for line in lines:
            terminalreporter.write_line(line)
