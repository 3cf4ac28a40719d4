"""pytest's hooks in a session with gates: parametrisation, runs, failures and reports.

A gate that fails under a waiver has neither passed nor failed. Its report stays that of a failed
test, so that no plugin, JUnit file or dashboard takes the gate for passed, and its message begins
with the waiver. Only the counts that decide the exit code, and whether ``-x`` stops, leave it out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.text import clean
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import Figure
from refusal_checks.plugin import junit, options, xdist
from refusal_checks.plugin.inconclusive import InconclusiveWarning
from refusal_checks.plugin.live import Live
from refusal_checks.plugin.session import GateSession, gate_id
from refusal_checks.reports import junit_properties, messages
from refusal_checks.reports.explain import doubt
from refusal_checks.reports.formats import github
from refusal_checks.reports.terminal import end, gate_table
from refusal_checks.results.events import Event, Prepared, Underway
from refusal_checks.results.redact import is_redacted
from refusal_checks.results.release import explains
from refusal_checks.results.run_folder import RunView

if TYPE_CHECKING:
    from refusal_checks.evaluation.result import RunResult


_HEADLINE, _WAIVED = pytest.StashKey[str](), pytest.StashKey[bool]()
_GATE, _CANDIDATE, _FIGURE = "refusal_gate", "refusal_candidate", "refusal_judge_figure"
_IS_WAIVED = "refusal_checks_waived"
"""An attribute of reports, which workers send with them."""

_NOTE = "gates of refusal-checks"


class Gates:
    """A plugin of its own, registered once a gate is collected or an option of gates is given."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._redacts = False
        if is_redacted(bool(options.value(config, "--redact"))):
            self._redact()
        self._session = GateSession(config)
        self.is_gate = self._session.is_gate
        self.check_files = self._session.check_files
        self.require_named = self._session.require_named
        self._live: Live | None = None
        self._underway: tuple[Underway, ...] = ()
        self._fault: pytest.UsageError | None = None
        self._written: list[str] = []
        self._failed: dict[str, str] = {}
        """The phase in which each failed test failed, by node id."""

    def _redact(self) -> None:
        """Keep pytest from showing values of variables, which may be texts."""
        self._redacts = True
        self.config.option.showlocals = self.config.option.fulltrace = False

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Give a test its gates or figures.

        A wrong run file is reported later, where pytest takes it for the user's mistake.
        """
        xdist.say_gates(self.config)
        try:
            gates, figures = self._gate_params(), self._session.judge_figures or (None,)
        except pytest.UsageError as fault:
            self._fault, gates, figures = fault, [], ()
        else:
            if self._session.spec.reports.redact:  # a run file may ask for it, too
                self._redact()
        if _FIGURE in metafunc.fixturenames:
            marks = self._marks("judge")
            params = [
                pytest.param(each, id=each or "none", marks=marks) for each in figures
            ]
            metafunc.parametrize(_FIGURE, params)
        if "refusal_verdict" in metafunc.fixturenames:
            metafunc.parametrize((_GATE, _CANDIDATE), gates)

    def _gate_params(self) -> list[Any]:
        params = []
        for candidate in self._session.candidates:
            for gate in self._session.spec.gates:
                benchmark = self._session.benchmarks[gate.benchmark]
                kinds = (
                    (benchmark.kind, "attack")
                    if benchmark.attack
                    else (benchmark.kind,)
                )
                marks = [mark for kind in kinds for mark in self._marks(kind)]
                name = self._session.test_id(candidate, gate.id)
                params.append(pytest.param(gate, candidate, id=name, marks=marks))
        return params

    def _marks(self, kind: str) -> list[pytest.MarkDecorator]:
        """The markers of a gate's test: ``refusal_safety`` and ``safety``.

        The short one stays the repository's own if its configuration declares it.
        """
        declared = self.config.getini("markers")
        own = {
            re.split(r"[:(]", line)[0].strip() for line in declared if _NOTE not in line
        }
        names = [f"refusal_{kind}", *([] if str(kind) in own else [str(kind)])]
        for name in names:
            line = f"{name}: {_NOTE} ({kind})"
            if line not in declared:
                self.config.addinivalue_line("markers", line)
        # A doubt stays a warning in a project that turns warnings into errors.
        visible = pytest.mark.filterwarnings(
            "default::refusal_checks.plugin.InconclusiveWarning"
        )
        return [*(getattr(pytest.mark, name) for name in names), visible]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop the judge's test if no floors are set; skip all gates if the run is a batch."""
        if self._fault and not xdist.is_worker(self.config):
            raise self._fault
        items[:] = [
            item for item in items if _params(item).get(_FIGURE, "") is not None
        ]
        for item in items:
            if self._session.is_batch and {_GATE, _FIGURE} & _params(item).keys():
                item.add_marker(pytest.mark.skip("a batch decides no gate"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Evaluate in this process, once the selected gates are known."""
        failed = (
            session.testsfailed
            and not session.config.option.continue_on_collection_errors
        )
        shows_only = session.config.option.collectonly or self.config.getoption(
            "setupplan", False
        )
        if shows_only or failed or xdist.has_workers(self.config):
            return
        self.start([item.nodeid for item in session.items])

    def start(self, nodeids: Sequence[str]) -> None:
        """Evaluate what the selected tests need. See ``GateSession.evaluate``."""
        self.require_named(nodeids)
        if xdist.is_worker(self.config):
            return
        self._live = Live(self.config)
        try:
            # A library's warning must not end an evaluation, even in a project that turns warnings
            # into errors.
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                self._session.evaluate(nodeids, self._see)
        finally:
            self._live.stop()

    def _see(self, event: Event) -> None:
        if isinstance(event, Prepared):
            self._underway = event.runs
        if self._live:
            self._live.see(event)

    def result(self) -> RunResult:
        try:
            return self._session.result()
        except EvaluationError as fault:
            raise _first_line(fault) from None

    def verdict(
        self, request: pytest.FixtureRequest, gate: Gate, candidate: str
    ) -> Verdict:
        run = self._run_of(candidate)
        facts = junit_properties.provenance(run.summary, gate.benchmark)
        verdict = run.summary.verdicts.get(gate.id)
        if verdict is None:
            why = run.summary.errors.get(gate.id) or run.summary.failure or "no verdict"
            properties = junit_properties.of_error(gate, why.partition("\n")[0], facts)
            request.node.user_properties.extend(properties)
            raise _first_line(EvaluationError(why))
        request.node.user_properties.extend(junit_properties.of_gate(verdict, facts))
        return verdict

    def _run_of(self, candidate: str) -> RunView:
        """The run of a candidate; the only one if there is one."""
        result = self.result()
        return (
            result.of(candidate).run
            if len(self._session.candidates) > 1
            else result.run
        )

    def pass_check(
        self, request: pytest.FixtureRequest, verdict: Verdict
    ) -> Callable[[], None]:

        def check() -> None:
            if verdict.is_idle:
                pytest.skip(verdict.skipped)
            if verdict.warns:
                warnings.warn(InconclusiveWarning(doubt(verdict)), stacklevel=2)
            if not verdict.passed:
                request.node.stash[_HEADLINE] = messages.failure_line(verdict)
                request.node.stash[_WAIVED] = verdict.waived
                pytest.fail(messages.message(verdict), pytrace=False)

        return check

    def trust_check(
        self, request: pytest.FixtureRequest, figure: Figure
    ) -> Callable[[], None]:
        summary = self.result().runs[0].summary
        found = summary.judge
        if found is None and not summary.judge_idle:
            raise _first_line(EvaluationError(summary.judge_error or summary.failure))

        def check() -> None:
            if found is None:
                pytest.skip(summary.judge_idle)
            results = [each for each in found.checks if each.figure == figure]
            if failed := [each for each in results if not each.passed]:
                request.node.stash[_HEADLINE] = "; ".join(
                    each.headline for each in failed
                )
                lines = chain.from_iterable(map(messages.judge_message, failed))
                pytest.fail("\n".join(lines), pytrace=False)

        if found:
            request.node.user_properties.extend(
                junit_properties.of_judge(found, figure)
            )
        return check

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the crash message, which becomes an attribute in JUnit, to one line."""
        report = yield
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None and _HEADLINE in item.stash:
            crash.message = item.stash[_HEADLINE]
            setattr(report, _IS_WAIVED, item.stash.get(_WAIVED, False))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Note what failed; take the failure of a waived gate off the counts before it is added."""
        if report.failed:
            self._failed[report.nodeid] = report.when or ""
        if getattr(report, _IS_WAIVED, False):
            session: Any = self.config.pluginmanager.get_plugin("session")
            session.testsfailed -= 1
            xdist.uncount_failure(self.config)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """The category, the letter and the word of a waived gate."""
        is_waived = getattr(report, _IS_WAIVED, False)
        return ("waived", "W", ("WAIVED", {"yellow": True})) if is_waived else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(
        self, excrepr: ExceptionRepr, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Under ``--redact`` say where it happened only: an error may quote a text, also in XML."""
        if self._redacts:
            place = excinfo.traceback[-1]
            where = f"{excinfo.typename} in {place.path}:{place.lineno + 1} (--redact hides more)"
            excrepr.toterminal = lambda tw: tw.line(where)  # type: ignore[method-assign]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """See to the exit code, then write the report files; the process that evaluated does both.

        A worker that has loaded the result would write and send all reports once more.
        """
        if xdist.is_worker(self.config):
            return
        self._leave_open(int(session.exitstatus))
        # Tests that are skipped or left out fail nothing; what they would have decided is open.
        if not session.exitstatus and not self._may_ship():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not session.exitstatus and self._lacks_gates():
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        if self._session.runs:
            self._written = list(
                self.result().write_reports(self._session.spec.reports)
            )
        is_stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
        left = [*self._left()] if is_stopped else []
        junit.complete(self.config, [run.summary for run in self._session.runs], left)
        if (
            self.config.getoption("verbose", 1) < 1
        ):  # without a terminal report there is none
            self._shorten()

    def _may_ship(self) -> bool:
        return all(run.decision.may_ship for run in self._with_gates())

    def _with_gates(self) -> list[RunView]:
        """The runs that decide something; one without gates only has its judge checked."""
        return [
            run for run in self._session.runs if run.summary.manifest.gates.selected
        ]

    def _leave_open(self, exit_code: int) -> None:
        """Have no run say that it may ship while pytest ends with another exit code than 0.

        A failed test that a run's verdicts, errors or judge explain is part of its answer already.
        """
        runs = self._session.runs
        tests = {
            self._session.test_id(run.summary.manifest.title, gate.id): (run, gate.id)
            for run in runs
            for gate in self._session.spec.gates
        }
        for run in runs:
            unexplained = []
            for nodeid, phase in self._failed.items():
                asker, gate = tests.get(gate_id(nodeid), (run, None))
                if asker is run and not explains(run.summary, gate, phase):
                    unexplained.append(
                        f"mend or deselect {nodeid}: it failed, and no verdict says why"
                    )
            if not run.folder.has_begun:
                unexplained.append(
                    f"run it again: its folder {run.folder.path} was removed"
                )
            if unexplained:
                run.leave_open(unexplained)
        if exit_code and self._may_ship():
            for run in self._with_gates():
                run.leave_open([_why_ended(exit_code)])

    def _lacks_gates(self) -> bool:
        """True if this call names a candidate, but selected no gate."""
        if (
            self._session.runs
            or self._session.batch is not None
            or xdist.is_worker(self.config)
        ):
            return False
        words = {word.partition("=")[0] for word in self.config.invocation_params.args}
        named = not words.isdisjoint({"--candidate", "--refusal-candidate"})
        return named and not self.config.option.collectonly

    def _shorten(self) -> None:
        """Shorten the failures that pytest is about to print; JUnit has had them in full."""
        verdicts = {
            self._session.test_id(run.summary.manifest.title, gate): verdict
            for run in self._session.runs
            for gate, verdict in run.summary.verdicts.items()
        }
        reporter: Any = self.config.pluginmanager.get_plugin("terminalreporter")
        shown: set[tuple[str, str]] = set()
        for report in reporter.stats.get("failed", ()) if reporter else ():
            verdict = verdicts.get(gate_id(report.nodeid))
            if verdict and str(report.longrepr) == messages.message(verdict):
                report.longrepr = messages.brief_message(verdict, shown)
                self.config.option.force_short_summary = (
                    True  # or CI repeats all of it there
                )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: Any, exitstatus: int
    ) -> Generator[None, None, None]:
        """Print the table of gates and the answer below all that pytest and others print."""
        yield
        session: Any = self.config.pluginmanager.get_plugin("session")
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            for text in self._session.unselected():
                terminalreporter.write_line(text)
        runs, batch = self._session.runs, self._session.batch
        if batch is not None:
            terminalreporter.section("batch")
            for text in batch:
                terminalreporter.write_line(text)
        if not runs:
            return
        terminalreporter.write_sep("=", "refusal checks")
        for text in github.commands([run.summary for run in runs]):
            terminalreporter.write_line(text)
        writer = self.config.get_terminal_writer()
        width, verbosity = (
            gate_table.fitting(writer.fullwidth),
            max(0, self.config.option.verbose),
        )
        folders = [(run.summary, run.folder.path) for run in runs]
        notes = (*self._left(), *self._written, *options.misread(self.config))
        for line in end.lines(folders, width, verbosity, notes):
            for text, markup in line.pieces:
                terminalreporter.write(text, **markup)
            terminalreporter.line("")

    def _left(self) -> Iterator[str]:
        """What is left to do of runs that were interrupted."""
        is_fresh = self._session.spec.store.fresh
        for run in self._underway:
            yield from end.unfinished(
                run.progress, run.summary, len(run.gates), is_fresh
            )


def _why_ended(exit_code: int) -> str:
    if exit_code == pytest.ExitCode.INTERRUPTED:
        return "run it again: it was interrupted"
    return f"see above why pytest ended with exit code {exit_code}: no gate failed"


def _params(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _first_line(fault: EvaluationError) -> BaseException:
    """The start of a failure; the summary has the rest, which may be an engine's log."""
    return pytest.fail.Exception(
        clean(str(fault).partition("\n")[0], 500), pytrace=False
    )
