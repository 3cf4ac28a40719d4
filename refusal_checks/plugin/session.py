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
import re
import warnings
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr
from _pytest.junitxml import xml_key
from _pytest.mark.structures import ParameterSet

from refusal_checks.benchmarks import Benchmark
from refusal_checks.config import toml_file
from refusal_checks.config.layers import Layer, option_layer, parse_override
from refusal_checks.config.run_spec import RunSpec, usual_file
from refusal_checks.config.tables import NAMED
from refusal_checks.core.errors import DataError, StoreError, UserError
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.io import extensions
from refusal_checks.io.files import resolve_path
from refusal_checks.judges import kind_of
from refusal_checks.plugin import options, outcomes, xdist
from refusal_checks.plugin.outcomes import gate_id
from refusal_checks.plugin.progress_display import ProgressDisplay
from refusal_checks.reports import markdown, terminal
from refusal_checks.reports.junit_properties import (
    CLASS,
    class_name,
    run_properties,
)
from refusal_checks.results.events import Notice, Prepared
from refusal_checks.results.project import RUNS_VARIABLE
from refusal_checks.results.redact import is_redacted
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.trust.check_sets import REFUSALS, SETS
from refusal_checks.trust.floors import Figure

if TYPE_CHECKING:
    from refusal_checks.api.result import RunResult
    from refusal_checks.results.events import Event, Listener
    from refusal_checks.run.inputs import Folders

EXIT_ENGINE = 16
"""Exit code of a session that ended because an engine did not start."""

FIGURE = "refusal_judge_figure"
"""The parameter of the judge's test."""

_NOTE = "gates of refusal-checks"

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
    def folders(self) -> Folders:
        """The folders of the store and of runs."""
        from refusal_checks.run.inputs import choose_folders  # not for collection

        own, runs = map(self._configured, ("folder", "runs"))
        own = own or self._config.rootpath / ".refusal-checks"
        named = os.environ.get(RUNS_VARIABLE, "").strip()
        if runs is None and named:
            folder = self._config.invocation_params.dir
            runs = resolve_path(folder / Path(named).expanduser())
        return choose_folders(self.spec, own, runs or own / "runs")

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
        """Gates of these tests; empty if they only check the judge, None if none is of ours.

        Benchmarks that are only measured count as gates.
        """
        ids = {gate_id(nodeid) for nodeid in nodeids}
        chosen = [name for name in self.spec.ids if name in ids]
        tests = [nodeid.rpartition("::")[2] for nodeid in nodeids]
        judges = {f"test_judge[{figure}]" for figure in self._judge_figures}
        return chosen if chosen or judges & set(tests) else None

    # Collection

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise a test with its gates or figures, from the run files alone.

        An error in a run file is raised later, in a hook where pytest reports it as a usage error.
        """
        config, fixtures = self._config, metafunc.fixturenames
        if xdist.is_worker(config):
            xdist.signal(config).touch()
        gates: list[ParameterSet] = []
        figures: list[ParameterSet] = []
        try:
            spec = self.spec
            for gate in spec.gates:
                gates.append(self._parameter(gate, gate.id, gate.benchmark))
            # Of a benchmark without gates, only the package's own test has a use.
            measured = spec.measured if "refusal_require_pass" in fixtures else {}
            for key, name in measured.items():
                gates.append(self._parameter(name, key, name))
            for figure in self._judge_figures or (None,):
                figures.append(self._parameter(figure, figure or "none", None))
        except pytest.UsageError as fault:
            self._fault = fault
        else:
            if spec.reports.redact:  # a run file may ask for it, too
                self._redact()
        if FIGURE in fixtures:
            metafunc.parametrize(FIGURE, figures)
        if "refusal_verdict" in fixtures:
            metafunc.parametrize("refusal_gate", gates)

    def _parameter(
        self, value: object, test_id: str, benchmark: str | None
    ) -> ParameterSet:
        """The parameter of one test, with its markers: ``refusal_safety`` and ``safety``.

        The short one is left to the repository if its configuration declares it; `refusal-checks
        gate` has that alone, lest "refusal" be a word of all tests.
        """
        kind = str(self.benchmarks[benchmark].kind) if benchmark else "judge"
        declared = self._config.getini("markers")
        own = {
            re.split(r"[:(]", line)[0].strip() for line in declared if _NOTE not in line
        }
        names = [kind]
        if options.prefix(self._config) != "--":
            names = [f"refusal_{kind}", *({kind} - own)]
        for name in names:
            line = f"{name}: {_NOTE} ({kind})"
            if line not in declared:
                self._config.addinivalue_line("markers", line)
        # A doubt stays a warning in a project that turns warnings into errors.
        visible = "default::refusal_checks.plugin.InconclusiveWarning"
        marks = [getattr(pytest.mark, name) for name in names]
        marks.append(pytest.mark.filterwarnings(visible))
        return pytest.param(value, id=test_id, marks=marks)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the judge's test if no floors are set."""
        if self._fault and not xdist.is_worker(self._config):
            raise self._fault
        items[:] = [item for item in items if not _lacks_floors(item)]

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
        if self._has_evaluated or xdist.is_worker(self._config):
            return
        display = ProgressDisplay(self._config)
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
                    self._evaluate(gates, display.show)
        finally:
            display.stop()

    def _evaluate(self, gates: Collection[str], listener: Listener) -> None:
        """Evaluate gates; if an engine does not start, the session ends with EXIT_ENGINE."""
        shipped = ""
        if self.spec.files == (toml_file.DEFAULT,) and not self._named_files():
            # In a wrong folder, other gates than one's own would decide without a word.
            shipped = (
                f"no thresholds/default.toml in {self._config.rootpath}: these gates come with "
                "refusal-checks"
            )
            listener(Notice(shipped))

        def listen(event: Event) -> None:
            if isinstance(event, Prepared):
                self._prepared = event
            listener(event)

        # HTTP and templates, which collection need not import
        from refusal_checks.api.evaluate import (
            Interrupted,
            NotStartedError,
            evaluate,
        )

        try:
            with _usage_errors(), self._run_file_named(shipped):
                self._result = evaluate(
                    self.spec,
                    listen,
                    gates=gates,
                    run_id=xdist.run_id(self._config),
                    folders=self.folders,
                    write_reports=False,
                )
        except KeyboardInterrupt as stopped:
            why = "interrupted before anything was asked"
            if isinstance(stopped, Interrupted):
                self._result = stopped.result
                why = "interrupted; see below what is done"
            raise _Stopped(why, 2) from None
        except NotStartedError as fault:
            self._result = fault.result
            raise _Stopped(clean_lines(str(fault)), EXIT_ENGINE) from None

    @contextmanager
    def _run_file_named(self, shipped: str) -> Iterator[None]:
        """Whoever forgot to name a run file needs that, and no data for the shipped gates."""
        try:
            yield
        except DataError as fault:
            if not shipped:
                raise
            option = f"{options.prefix(self._config)}thresholds FILE"
            raise UserError(
                f"name your run file with {option}: {shipped}. Or, for these gates, {fault}"
            ) from None

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

        path = self.folders.runs / xdist.run_id(self._config)
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
        """Offset a waived gate's failure before pytest counts it."""
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
        """Make a worker's crash an error of the test: it says nothing about the gate."""
        if self._selected([crashitem]) is not None:
            report.when = "setup"

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
        return (yield)

    def _decide(self, session: pytest.Session) -> None:
        self._leave_open(int(session.exitstatus))
        # Tests that are skipped or left out fail nothing; what they would have decided is open.
        if not session.exitstatus:
            session.exitstatus = self._exit_code()
        words = self._config.invocation_params.args
        if (
            not session.exitstatus
            and self._result is None
            and any(word.startswith("--refusal-candidate") for word in words)
            and not self._config.option.collectonly
        ):
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def _write(self, session: pytest.Session) -> None:
        """Write the report files, and shorten the failures that pytest is about to print."""
        run = self._result
        if run:
            self._written = list(self.result().write_reports(self.spec.reports))
        is_stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
        left = [*self._left()] if is_stopped else []
        self._complete_junit(left)
        if run:
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
        run = self._result
        if run is None or not run.summary.manifest.gates.selected:
            return 0
        return run.decision.exit_code

    def _leave_open(self, exit_code: int) -> None:
        """Mark the run as undecided if pytest failed and no gate did, or if its folder is gone."""
        run = self._result
        if run is None or not run.summary.manifest.gates.selected:
            return
        if not RunFolder(run.folder).has_begun:
            run.leave_open([f"run it again: its folder {run.folder} was removed"])
        elif exit_code == pytest.ExitCode.INTERRUPTED:
            run.leave_open(["run it again: it was interrupted"])
        elif exit_code and self._exit_code() != pytest.ExitCode.TESTS_FAILED:
            run.leave_open(
                [
                    f"see above why pytest ended with exit code {exit_code}: no gate failed"
                ]
            )

    def _complete_junit(self, left: Sequence[str]) -> None:
        """Add classes of gates and properties of the run to pytest's JUnit file, if there is one.

        What an interrupted run has left becomes an entry, since gates without a verdict have none
        and the file would look green.
        """
        # pytest's fixtures for attributes and properties of the suite do not work in workers.
        xml: Any = self._config.stash.get(xml_key, None)
        if xml is None:
            return
        for reporter in xml.node_reporters_ordered:
            entry = reporter.to_xml()
            name = class_name(
                {item.get("name"): item.get("value") for item in entry.iter("property")}
            )
            if name:  # pytest's own is the path of the installed package
                entry.set("classname", ".".join(filter(None, (xml.prefix, name))))
        if self._result:
            for name, value in run_properties(self._result.summary).items():
                xml.add_global_property(name, value)
        if left:
            entry = xml.node_reporter("stopped")
            entry.attrs = {"classname": CLASS, "name": "stopped", "time": "0.000"}
            entry._add_simple(
                "error", "stopped before it was complete", "\n".join(left)
            )

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
            for line in _unselected(option.keyword, option.markexpr, ids):
                terminalreporter.write_line(line)
        run = self._result
        if run is None:
            return
        terminalreporter.write_sep("=", "refusal checks")
        lines = [
            *markdown.workflow_commands(run.summary),
            *terminal.lines(
                run.summary,
                run.folder,
                terminal.usable_width(self._config.get_terminal_writer().fullwidth),
                max(0, option.verbose),
                (*self._left(), *self._written),
                terminalreporter.hasmarkup,
            ),
        ]
        for line in lines:
            terminalreporter.write_line(line)

    def _left(self) -> Iterator[str]:
        """Lines on what an interrupted run has left to do."""
        prepared, run = self._prepared, self._result
        if prepared and run:
            gates, fresh = len(prepared.gates), self.spec.store.fresh
            yield from terminal.unfinished_work(
                prepared.progress, run.summary, gates, fresh
            )


def _lacks_floors(item: pytest.Item) -> bool:
    """True for the judge's test if no floors are set."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get(FIGURE, "") is None


def _unselected(keyword: str, markers: str, ids: Sequence[str]) -> Iterator[str]:
    """List the gates that can be selected, if none was."""
    given = {"-k": keyword, "-m": markers}
    asked = " ".join(f"{option} {text!r}" for option, text in given.items() if text)
    if not asked:
        yield "run `refusal-checks init`, which writes the test file of gates: none is here"
        return
    parts = set(ids)
    for name in ids:
        parts.update(name.split("-"))
    close = get_close_matches(keyword, parts)
    meant = f'; did you mean "{close[0]}"?' if close else "."
    yield clean(f"{asked} selects none of {len(ids)} gates{meant} They are:", 500)
    yield from (f"  {name}" for name in ids[:40])
    if ids[40:]:
        yield f"  and {len(ids) - 40} more: --collect-only -q lists them all"


def _layers(config: pytest.Config) -> list[Layer]:
    """The command line's layers of keys; later ones win.

    Raises:
        UserError: a ``--set`` is malformed.
    """
    given = options.given(config)
    layers = [parse_override(text) for text in given.get("set", ())]
    for name, value in given.items():
        if name in NAMED:
            layers.append(option_layer(name, value, options.prefix(config)))
    return layers


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End the session with pytest's exit code for usage errors (4) if the user's input is wrong."""
    try:
        yield
    except (UserError, StoreError) as fault:
        raise pytest.UsageError(clean_lines(str(fault))) from None
    except Exception as fault:
        place = extensions.extension_line(fault)
        if not place:
            raise
        raise pytest.UsageError(
            f"fix {place}: this extension raised {type(fault).__name__}: {clean(str(fault), 500)}"
        ) from None
