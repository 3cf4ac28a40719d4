"""A pytest session with gates, from the run files to the exit code.

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

import os
import warnings
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr
from _pytest.mark.structures import ParameterSet

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, StoreError, UserError
from refusal_checks.core.files import resolved
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.gates import toml_file
from refusal_checks.judges import kind_of
from refusal_checks.judges.trust.check_sets import REFUSALS, SETS
from refusal_checks.judges.trust.floors import Figure
from refusal_checks.plugin import junit_entries, options, outcomes, parameters, xdist
from refusal_checks.plugin.live import Live
from refusal_checks.plugin.parameters import gate_id
from refusal_checks.reports import markdown, terminal
from refusal_checks.reports.wording.release import explains
from refusal_checks.results.events import Notice, Prepared
from refusal_checks.results.project import RUNS_VARIABLE
from refusal_checks.results.redact import is_redacted
from refusal_checks.spec import NAMED, Layer, RunSpec, named, override, usual_file

if TYPE_CHECKING:
    from refusal_checks.evaluation.inputs import Folders
    from refusal_checks.evaluation.result import RunResult
    from refusal_checks.reports.run_view import RunView
    from refusal_checks.results.events import Event, Listener

EXIT_ENGINE = 16
"""Exit code of a session that ended because an engine did not start."""

# Named like a built-in exception: pytest would put the name of any other module before the message.
_Stopped: type[Exception] = type(
    "Stopped", (pytest.exit.Exception,), {"__module__": "builtins"}
)


class GateSession:
    """The plugin. The first gate, or the first option of gates, registers it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._result: RunResult | None = None
        self._prepared: Prepared | None = None
        self._has_evaluated = False
        self._fault: pytest.UsageError | None = None
        self._failed: dict[str, str] = {}  # phase of each failed test, by node id
        self._crashed: set[str] = set()
        self._written: list[str] = []
        self._redacts = False
        if is_redacted("redact" in options.given(config)):
            self._redact()

    def _redact(self) -> None:
        """Keep pytest from showing the values of variables, which may be private texts."""
        self._redacts = True
        self._config.option.showlocals = False
        self._config.option.fulltrace = False

    @cached_property
    def spec(self) -> RunSpec:
        """The spec, from run files and options."""
        with _usage_errors():
            layers = _layers(self._config)
            return RunSpec.read(*self._files(layers), overrides=layers)

    def _files(self, layers: Sequence[Layer]) -> list[Path]:
        """The run files: those named, else the repository's own, else the shipped one."""
        named = self._named_files()
        if named:
            folder = self._config.invocation_params.dir
            return [toml_file.find(folder / name) for name in named]
        return [usual_file(self._config.rootpath, layers)]

    def _named_files(self) -> Sequence[str]:
        named: Sequence[str] = options.given(self._config).get("thresholds", ())
        return named or self._config.getini(f"{options.PREFIX}thresholds")

    @cached_property
    def kept(self) -> Folders:
        """The folders of the store and of runs."""
        from refusal_checks.evaluation.inputs import folders  # not for collection

        own = self._configured("folder") or self._config.rootpath / ".refusal-checks"
        runs = self._configured("runs")
        named = os.environ.get(RUNS_VARIABLE, "").strip()
        if runs is None and named:
            folder = self._config.invocation_params.dir
            runs = resolved(folder / Path(named).expanduser())
        return folders(self.spec, own, runs or own / "runs")

    def _configured(self, key: str) -> Path | None:
        paths: list[Path] = self._config.getini(options.PREFIX + key)
        return Path(paths[0]) if paths else None

    @cached_property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """All benchmarks that gates may use; reads run files that are named."""
        with _usage_errors():
            return self.spec.catalogue()

    @property
    def _judge_figures(self) -> tuple[Figure, ...]:
        """The figures of the judges that gates may have; without any, those of refusals."""
        floors = self.spec.judge.check
        if not floors:
            return ()
        verdicts = {
            kind_of(self.benchmarks[name]).verdicts for name in self.spec.evaluated
        }
        checks = [SETS[name] for name in verdicts if name in SETS] or [REFUSALS]
        own = set(chain.from_iterable(check.figures for check in checks))
        return tuple(figure for figure in floors.figures if figure in own)

    def _selected(self, nodeids: Collection[str]) -> list[str] | None:
        return parameters.selected(nodeids, self.spec.ids, self._judge_figures)

    # Collection

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise a test with its gates or figures, from the run files alone.

        An error in a run file is raised later, in a hook where pytest reports it as a usage error.
        """
        config, fixtures = self._config, metafunc.fixturenames
        xdist.say_gates(config)
        gates: list[ParameterSet] = []
        figures: list[ParameterSet] = []
        try:
            spec = self.spec
            measured = spec.measured if "refusal_require_pass" in fixtures else {}
            gates = parameters.of_gates(config, spec.gates, measured, self.benchmarks)
            figures = parameters.of_figures(config, self._judge_figures)
        except pytest.UsageError as fault:
            self._fault = fault
        else:
            if spec.reports.redact:  # a run file may ask for it, too
                self._redact()
        if parameters.FIGURE in fixtures:
            metafunc.parametrize(parameters.FIGURE, figures)
        if "refusal_verdict" in fixtures:
            metafunc.parametrize(parameters.GATE, gates)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the judge's test if no floors are set."""
        if self._fault and not xdist.is_worker(self._config):
            raise self._fault
        items[:] = [item for item in items if not parameters.lacks_floors(item)]

    # Evaluation

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
        tests = self._config.stash.get(parameters.NAMED_TESTS, ())
        if tests:
            ids = [*self._judge_figures, *self.spec.ids]
            parameters.require_named(tests, nodeids, ids)
        if self._has_evaluated or xdist.is_worker(self._config):
            return
        live = Live(self._config)
        try:
            # A library's warning must not end an evaluation, even in a project that turns warnings
            # into errors.
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                # A worker that finds a table wrong collects no gates, and says nothing.
                _ = self.benchmarks
                gates = self._selected(nodeids)
                if gates is not None:
                    self._has_evaluated = True
                    self._evaluate(gates, live.see)
        finally:
            live.stop()

    def _evaluate(self, gates: Collection[str], listener: Listener) -> None:
        """Evaluate gates; if an engine does not start, the session ends with EXIT_ENGINE."""
        if self.spec.files == (toml_file.DEFAULT,) and not self._named_files():
            # In a wrong folder, other gates than one's own would decide without a word.
            listener(
                Notice(
                    f"no thresholds/default.toml in {self._config.rootpath}: these gates "
                    "come with refusal-checks"
                )
            )

        def listen(event: Event) -> None:
            if isinstance(event, Prepared):
                self._prepared = event
            listener(event)

        # HTTP and templates, which collection need not import
        from refusal_checks.evaluation.evaluate import (
            Interrupted,
            NotStartedError,
            evaluate,
        )

        try:
            with _usage_errors():
                self._result = evaluate(
                    self.spec,
                    listen,
                    gates=gates,
                    run_id=xdist.shared(self._config)["run"],
                    kept=self.kept,
                    write_reports=False,
                )
        except KeyboardInterrupt as stopped:
            if isinstance(stopped, Interrupted):
                self._result = stopped.result
            raise KeyboardInterrupt from None
        except NotStartedError as fault:
            self._result = fault.result
            raise _Stopped(clean_lines(str(fault)), EXIT_ENGINE) from None

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
        from refusal_checks.evaluation.result import RunResult

        path = self.kept.runs / xdist.shared(self._config)["run"]
        if not path.exists():
            return None
        try:
            result = RunResult.load(path)
        except DataError as fault:
            raise outcomes.failure(f"run it again: {fault}") from None
        if not result.run.folder.has_ended:
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
        """Note what failed; offset a waived gate's failure before pytest counts it."""
        if report.failed:
            self._failed[report.nodeid] = report.when or ""
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
        """Rerun the test during which a worker died: a crash says nothing about the gate.

        The test is reported as skipped and runs once more. If its next worker dies too, or no other
        worker can take it (``--dist each``), it is an error.
        """
        if self._selected([crashitem]) is None:
            return
        report.when = "setup"  # a failure there is an error
        if crashitem in self._crashed or self._config.getoption("dist") == "each":
            return
        self._crashed.add(crashitem)
        xdist.rerun(report, sched, crashitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(
        self, excrepr: ExceptionRepr, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Under ``--redact``, report only where an error occurred: its message may quote a text."""
        if self._redacts:
            place = excinfo.traceback[-1]
            where = f"{excinfo.typename} in {place.path}:{place.lineno + 1} (--redact hides more)"
            excrepr.toterminal = lambda tw: tw.line(where)  # type: ignore[method-assign]

    # End

    @property
    def _run(self) -> RunView | None:
        """The run that this process evaluated, once it has ended."""
        return self._result.run if self._result else None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(
        self, session: pytest.Session
    ) -> Generator[None, None, None]:
        """Set the exit code, then write the report files.

        Workers do neither: they would write and send all reports again.
        """
        if not xdist.is_worker(self._config):
            self._decide(session)
            self._write(session)
        yield

    def _decide(self, session: pytest.Session) -> None:
        self._leave_open(int(session.exitstatus))
        # Tests that are skipped or left out fail nothing; what they would have decided is open.
        if not session.exitstatus:
            session.exitstatus = self._exit_code()
        words = self._config.invocation_params.args
        if (
            not session.exitstatus
            and self._run is None
            and any(word.startswith("--refusal-candidate") for word in words)
            and not self._config.option.collectonly
        ):
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def _write(self, session: pytest.Session) -> None:
        """Write the report files, and shorten the failures that pytest is about to print."""
        run = self._run
        if run:
            self._written = list(self.result().write_reports(self.spec.reports))
        is_stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
        left = [*self._left()] if is_stopped else []
        junit_entries.complete(self._config, run.summary if run else None, left)
        if run:
            self._written += junit_entries.keep_whole(self._config)
            # Only the terminal reporter defines the option.
            reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
            if reporter and self._config.option.verbose < 1:
                outcomes.say_once(reporter.stats.get("error", ()), run.summary.errors)
                failed = reporter.stats.get("failed", ())
                if outcomes.shorten(failed, run.summary.verdicts):
                    # Without it, in CI pytest repeats whole messages in its short summary.
                    self._config.option.force_short_summary = True

    def _exit_code(self) -> int:
        """The exit code of the answer; 0 for a run without gates, which only checks the judge."""
        run = self._run
        if run is None or not run.summary.manifest.gates.selected:
            return 0
        return run.decision.exit_code

    def _leave_open(self, exit_code: int) -> None:
        """Mark the run as undecided if it does not explain a non-zero exit code of pytest.

        A failed test that its verdicts, errors or judge explain is already part of its answer.
        """
        run = self._run
        if run is None:
            return
        gates = {gate.id for gate in self.spec.gates}
        unexplained = []
        for nodeid, phase in self._failed.items():
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
        is_explained = self._exit_code() == pytest.ExitCode.TESTS_FAILED
        has_gates = bool(run.summary.manifest.gates.selected)
        if exit_code and has_gates and not is_explained:
            run.leave_open([_why_ended(exit_code)])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: Any
    ) -> Generator[None, None, None]:
        """Print the table of gates and the decision below the output of pytest and its plugins."""
        yield
        option = self._config.option
        session: Any = self._config.pluginmanager.get_plugin("session")
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            ids = [*self._judge_figures, *self.spec.ids]
            for line in parameters.unselected(option.keyword, option.markexpr, ids):
                terminalreporter.write_line(line)
        run = self._run
        if run is None:
            return
        terminalreporter.write_sep("=", "refusal checks")
        lines = [
            *markdown.workflow_commands(run.summary),
            *terminal.lines(
                run.summary,
                run.folder.path,
                terminal.fitting(self._config.get_terminal_writer().fullwidth),
                max(0, option.verbose),
                (*self._left(), *self._written),
                terminalreporter.hasmarkup,
            ),
        ]
        for line in lines:
            terminalreporter.write_line(line)

    def _left(self) -> Iterator[str]:
        """Lines on what an interrupted run has left to do."""
        prepared, run = self._prepared, self._run
        if prepared and run:
            gates, fresh = len(prepared.gates), self.spec.store.fresh
            yield from terminal.unfinished(prepared.progress, run.summary, gates, fresh)


def _why_ended(exit_code: int) -> str:
    if exit_code == pytest.ExitCode.INTERRUPTED:
        return "run it again: it was interrupted"
    return f"see above why pytest ended with exit code {exit_code}: no gate failed"


def _layers(config: pytest.Config) -> list[Layer]:
    """The command line's layers of keys; later ones win.

    Raises:
        UserError: a ``--set`` is malformed.
    """
    given = options.given(config)
    layers = [override(text) for text in given.get("set", ())]
    for name, value in given.items():
        if name in NAMED:
            layers.append(named(name, value, options.prefix(config)))
    return layers


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End the session with pytest's exit code for usage errors (4) if the user's input is wrong."""
    try:
        yield
    except (UserError, StoreError) as fault:
        raise pytest.UsageError(clean_lines(str(fault))) from None
    except Exception as fault:
        place = extensions.blamed_line(fault)
        if not place:
            raise
        raise pytest.UsageError(
            f"fix {place}: this extension raised {type(fault).__name__}: {clean(str(fault), 500)}"
        ) from None
