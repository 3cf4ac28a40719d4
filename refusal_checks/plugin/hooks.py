"""pytest's hooks in a session with gates: parametrisation, runs, failures and reports.

A gate that fails under a waiver has neither passed nor failed. Its report stays that of a failed
test, so that no plugin, JUnit file or dashboard takes the gate for passed, and its message begins
with the waiver. Only the counts that decide the exit code, and whether ``-x`` stops, leave it out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr

from refusal_checks.core.errors import DataError, EvaluationError, UserError
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.evaluation.options import command_line
from refusal_checks.evaluation.options import recorded as batch_options
from refusal_checks.evaluation.options.call import Call
from refusal_checks.evaluation.session import GateSession, gate_id
from refusal_checks.gates import explain
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.judges.trust.canary import Figure
from refusal_checks.plugin import junit, options, xdist
from refusal_checks.plugin.inconclusive import InconclusiveWarning
from refusal_checks.reports import formats, messages
from refusal_checks.reports.explain import doubt, select
from refusal_checks.reports.formats import github
from refusal_checks.reports.terminal import end
from refusal_checks.reports.terminal.progress import Live
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.shipping import explains, shipping

if TYPE_CHECKING:
    from refusal_checks.evaluation.run import Run
    from refusal_checks.results.progress import Underway


_HEADLINE, _WAIVED = pytest.StashKey[str](), pytest.StashKey[bool]()
_GATE, _CANDIDATE, _FIGURE = "refusal_gate", "refusal_candidate", "refusal_judge_figure"
_IS_WAIVED = "refusal_checks_waived"
"""An attribute of reports, which workers send with them."""

_NOTE = "gates of refusal-checks"


class Gates:
    """A plugin of its own, registered once a gate is collected or an option of gates is given."""

    def __init__(self, config: pytest.Config) -> None:
        options.fill(config)
        self.config = config
        self._call = Call(config)
        self._redacts = command_line.is_redacted(self._call.getoption("redact"))
        if self._redacts:
            config.option.showlocals = config.option.fulltrace = False
        self._session = GateSession(config, self._call, xdist.shared(config)["run"])
        self.is_gate = self._session.is_gate
        self.check_thresholds = self._session.check_thresholds
        self.require_named = self._session.require_named
        self._live: Live | None = None
        self._fault: pytest.UsageError | None = None
        self._written: list[str] = []
        self._failed: dict[str, str] = {}
        """The phase in which each failed test failed, by node id."""
        self._followers: list[formats.Follower] = []

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Give a test its gates or figures.

        A wrong threshold file is reported later, where pytest takes it for the user's mistake.
        """
        xdist.say_gates(self.config)
        try:
            gates, figures = self._gate_params(), self._session.judge_figures or (None,)
        except pytest.UsageError as fault:
            self._fault, gates, figures = fault, [], ()
        if _FIGURE in metafunc.fixturenames:
            marks = self._marks("judge")
            params = [pytest.param(each, id=each or "none", marks=marks) for each in figures]
            metafunc.parametrize(_FIGURE, params)
        if "refusal_verdict" in metafunc.fixturenames:
            metafunc.parametrize((_GATE, _CANDIDATE), gates)

    def _gate_params(self) -> list[Any]:
        params = []
        for candidate in self._session.candidates:
            for gate in self._session.thresholds.gates:
                benchmark = self._session.benchmarks[gate.benchmark]
                kinds = (benchmark.kind, "attack") if benchmark.attack else (benchmark.kind,)
                marks = [mark for kind in kinds for mark in self._marks(kind)]
                name = self._session.test_id(candidate, gate.id)
                params.append(pytest.param(gate, candidate, id=name, marks=marks))
        return params

    def _marks(self, kind: str) -> list[pytest.MarkDecorator]:
        """The markers of a gate's test: ``refusal_safety`` and ``safety``.

        The short one stays the repository's own if its configuration declares it.
        """
        declared = self.config.getini("markers")
        own = {re.split(r"[:(]", line)[0].strip() for line in declared if _NOTE not in line}
        names = [f"refusal_{kind}", *([] if str(kind) in own else [str(kind)])]
        for name in names:
            line = f"{name}: {_NOTE} ({kind})"
            if line not in declared:
                self.config.addinivalue_line("markers", line)
        # The evaluation goes on while gate tests run: a library's warning must not end it, even in
        # a project that turns warnings into errors.
        return [getattr(pytest.mark, name) for name in names] + [
            pytest.mark.filterwarnings("default")
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop the judge's test if no floors are set; skip all gates if the run is a batch."""
        if self._fault and not xdist.is_worker(self.config):
            raise self._fault
        items[:] = [item for item in items if _params(item).get(_FIGURE, "") is not None]
        for item in items:
            if batch_options.is_batch(self._call) and {_GATE, _FIGURE} & _params(item).keys():
                item.add_marker(pytest.mark.skip("a batch decides no gate"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Start a run in one process, once the selected gates are known."""
        failed = session.testsfailed and not session.config.option.continue_on_collection_errors
        if not session.config.option.collectonly and not failed:
            if not xdist.has_workers(self.config):
                self.require_named([item.nodeid for item in session.items])
            self.start([item.nodeid for item in session.items])

    def start(self, nodeids: Sequence[str]) -> None:
        """Start the runs that the selected tests need. See ``GateSession.start``."""
        if xdist.is_worker(self.config):
            return
        try:
            formats.check(self._call)  # before anything is started
        except UserError as fault:
            raise pytest.UsageError(clean_lines(str(fault))) from None
        self._live = self._live or Live(self.config, lambda: self._session.current)
        self._session.start(nodeids, self._live.say, self._follow)

    def _follow(self, runs: Sequence[Underway]) -> None:
        assert self._live, "made before the session starts"
        self._followers = list(formats.follow(self._call, runs, self._live.say))

    def verdict(self, request: pytest.FixtureRequest, gate: Gate, candidate: str) -> Verdict:
        try:
            outcome, provenance = self._session.verdict(gate, candidate)
        except EvaluationError as fault:
            board = self._session.boards[self._session.candidates.index(candidate)]
            facts: dict[str, str] = {}
            with suppress(EvaluationError):  # what the run knows of itself by then
                facts = board.provenance()
            why = str(fault).partition("\n")[0]
            request.node.user_properties.extend(messages.of_error(gate, why, facts))
            raise _first_line(fault) from None
        request.node.user_properties.extend(messages.properties(outcome, provenance))
        return outcome

    def pass_check(self, request: pytest.FixtureRequest, verdict: Verdict) -> Callable[[], None]:

        def check() -> None:
            if verdict.is_idle:
                pytest.skip(verdict.skipped)
            if verdict.warns:
                warnings.warn(InconclusiveWarning(doubt(verdict)), stacklevel=2)
            if not verdict.passed:
                waiver = select(verdict, "waiver") if verdict.waived else ()
                sentence = f"{verdict.gate.benchmark}: {explain.sentence(verdict)}"
                request.node.stash[_HEADLINE] = "; ".join([*waiver, sentence])
                request.node.stash[_WAIVED] = verdict.waived
                pytest.fail(messages.message(verdict), pytrace=False)

        return check

    def trust_check(self, request: pytest.FixtureRequest, figure: Figure) -> Callable[[], None]:
        try:
            outcome = self._session.judge()
        except EvaluationError as fault:
            raise _first_line(fault) from None

        def check() -> None:
            if outcome.check is None:
                pytest.skip(outcome.idle)
            results = [each for each in outcome.check.checks if each.figure == figure]
            if failed := [each for each in results if not each.passed]:
                request.node.stash[_HEADLINE] = "; ".join(each.headline for each in failed)
                lines = chain.from_iterable(map(messages.judge_message, failed))
                pytest.fail("\n".join(lines), pytrace=False)

        if outcome.check:
            request.node.user_properties.extend(messages.of_judge(outcome.check, figure))
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
        """End the runs, see to the exit code, then write the report files.

        Before the hook that waits for workers: those of an interrupted run wait for verdicts.
        """
        for shown in filter(None, (self._live, *self._followers)):
            shown.stop()
        self._session.close(is_interrupted=session.exitstatus == pytest.ExitCode.INTERRUPTED)
        self._leave_open(int(session.exitstatus))
        # Tests that are skipped or left out fail nothing; what they would have decided is open.
        if not session.exitstatus and not self._may_ship():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not session.exitstatus and self._lacks_gates():
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        self._written = list(_write_reports(self._call, self._session.runs))
        is_stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
        left = [*self._left()] if is_stopped else []
        junit.complete(self.config, [run.summary for run in self._session.runs], left)
        if self.config.getoption("verbose", 1) < 1:  # without a terminal report there is none
            self._shorten()

    def _may_ship(self) -> bool:
        return all(shipping(run.summary).may_ship for run in self._session.runs if run.gates)

    def _leave_open(self, exit_code: int) -> None:
        """Have no run say that it may ship while pytest ends with another exit code than 0.

        A failed test that a run's verdicts, errors or judge explain is part of its answer already.
        """
        runs = self._session.runs
        tests = {
            self._session.test_id(run.summary.manifest.title, gate.id): (run, gate.id)
            for run in runs
            for gate in self._session.thresholds.gates
        }
        for run in runs:
            unexplained = []
            for nodeid, phase in self._failed.items():
                asker, gate = tests.get(gate_id(nodeid), (run, None))
                if asker is run and not explains(run.summary, gate, phase):
                    unexplained.append(
                        f"mend or deselect {nodeid}: it failed, and no verdict says why"
                    )
            if not run.has_its_folder:
                unexplained.append(f"run it again: its folder {run.folder} was removed")
            if unexplained:
                run.leave_open(unexplained)
        with_gates = [run for run in runs if run.gates]
        if exit_code and with_gates and self._may_ship():
            for run in with_gates:
                run.leave_open([_why_ended(exit_code)])

    def _lacks_gates(self) -> bool:
        """True if this call names a candidate, but selected no gate."""
        if self._session.runs or self._session.batch is not None or xdist.is_worker(self.config):
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
                self.config.option.force_short_summary = True  # or CI repeats all of it there

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
        width, verbosity = end.fitting(writer.fullwidth), max(0, self.config.option.verbose)
        folders = [(run.summary, run.folder) for run in runs]
        notes = (*self._left(), *self._written, *options.misread(self.config))
        for line in end.lines(folders, width, verbosity, notes):
            for text, markup in line.pieces:
                terminalreporter.write(text, **markup)
            terminalreporter.line("")

    def _left(self) -> Iterator[str]:
        """What is left to do of runs that were interrupted."""
        for run in self._session.runs:
            yield from end.unfinished(
                run.progress, run.summary, run.gates, run.store, run.options.fresh
            )

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End the runs of a session that broke off before its end."""
        self._session.close()
        for follower in self._followers:
            follower.stop()


def _why_ended(exit_code: int) -> str:
    if exit_code == pytest.ExitCode.INTERRUPTED:
        return "run it again: it was interrupted"
    return f"see above why pytest ended with exit code {exit_code}: no gate failed"


def _params(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _first_line(fault: EvaluationError) -> BaseException:
    """The start of a failure; the summary has the rest, which may be an engine's log."""
    return pytest.fail.Exception(clean(str(fault).partition("\n")[0], 500), pytrace=False)


def _write_reports(call: Call, runs: Sequence[Run]) -> Iterator[str]:
    """Write the reports that were asked for; one line about each, for the user."""
    from refusal_checks.reports.page.charts import write_histograms  # not for collection

    folders = [RunFolder(run.folder) for run in runs]
    for run in runs:
        with suppress(OSError, UserError):  # their figures are there
            write_histograms(run.folder, run.summary.manifest.shown)
    for name, report, path in formats.targets(call) if folders else ():
        try:
            report.write(folders, path)
        except (OSError, DataError) as fault:
            yield f"{name} report could not be written: {clean(str(fault))}"
            continue
        yield formats.written(name, report, path)
