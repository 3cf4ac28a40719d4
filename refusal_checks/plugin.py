"""The pytest plugin: options, fixtures, parametrisation and reports; the logic is elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.core.errors import DataError, EvaluationError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import Figure
from refusal_checks.reports import explain, formats, gate_message, junit_properties
from refusal_checks.reports import judge_check as judge_report
from refusal_checks.reports.formats import github
from refusal_checks.reports.terminal import footer, table
from refusal_checks.reports.terminal.live import Live
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.run.options import batch as batch_options
from refusal_checks.run.options import command_line
from refusal_checks.run.session import GateSession

if TYPE_CHECKING:
    from refusal_checks.run.run import Run

_SESSION = pytest.StashKey[GateSession]()
_LIVE = pytest.StashKey[Live]()
_HEADLINE = pytest.StashKey[str]()
_WRITTEN = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of runs and of report formats."""
    group = parser.getgroup("refusal-checks", "release gates on refusal behaviour")
    command_line.add(group)
    formats.add(group)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and read the threshold files if there are any."""
    for kind in Kind:
        config.addinivalue_line("markers", f"{kind}: gates of {kind} benchmarks")
    config.addinivalue_line("markers", "judge: checks of the judge itself")
    config.stash[_SESSION] = GateSession(config)
    config.stash[_SESSION].check_thresholds()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per gate and per check of the judge, from the threshold files alone."""
    session = metafunc.config.stash[_SESSION]
    if "judge_figure" in metafunc.fixturenames:
        metafunc.parametrize("judge_figure", _judge_params(session))
    if "verdict" not in metafunc.fixturenames:
        return
    known = session.benchmarks
    params = [
        pytest.param(
            gate,
            candidate,
            id=session.test_id(candidate, gate.id),
            marks=_marks(known[gate.benchmark].kind),
        )
        for candidate in session.candidates
        for gate in session.thresholds.gates
    ]
    metafunc.parametrize(("gate", "candidate"), params)


def _judge_params(session: GateSession) -> list[Any]:
    marks = (pytest.mark.judge, pytest.mark.filterwarnings("default"))
    figures: tuple[str | None, ...] = session.judge_figures or (None,)
    return [pytest.param(figure, id=figure or "none", marks=marks) for figure in figures]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop the judge's test if no floors are set; skip all gates if the run is a batch."""
    items[:] = [item for item in items if _params(item).get("judge_figure", "") is not None]
    for item in items:
        if batch_options.is_given(item.config) and {"gate", "judge_figure"} & _params(item).keys():
            item.add_marker(pytest.mark.skip("a batch decides no gate"))


def _params(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _marks(kind: Kind) -> tuple[pytest.MarkDecorator, ...]:
    # The evaluation goes on while gate tests run: a library's warning must not end it, even in a
    # project that turns warnings into errors.
    return getattr(pytest.mark, kind.value), pytest.mark.filterwarnings("default")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Start a run without xdist, once the selected gates are known."""
    failed = session.testsfailed and not session.config.option.continue_on_collection_errors
    if not session.config.option.collectonly and not failed:
        _start(session.config, [item.nodeid for item in session.items])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker where outcomes are published."""
    node.config.stash[_SESSION].share(node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Start an xdist run: all workers collect the same gates, so the first one's are enough."""
    _start(node.config, ids)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """Wait again for the verdict that a killed worker waited for: the gate has not failed."""
    report.node.config.stash[_SESSION].wait_again(crashitem, report, sched)


def _start(config: pytest.Config, nodeids: list[str]) -> None:
    session = config.stash[_SESSION]
    live = config.stash.setdefault(_LIVE, Live(config, lambda: session.current))
    session.start(nodeids, live.say)


@pytest.fixture
def verdict(request: pytest.FixtureRequest, gate: Gate, candidate: str) -> Verdict:
    """The verdict of the test's gate on its candidate; waits until the benchmark is complete."""
    try:
        outcome, provenance = request.config.stash[_SESSION].verdict(gate, candidate)
    except EvaluationError as fault:
        raise _first_line(fault) from None
    request.node.user_properties.extend(junit_properties.properties(outcome, provenance))
    return outcome


def _first_line(fault: EvaluationError) -> BaseException:
    """The start of a failure; the summary has the rest, which may be an engine's log."""
    return pytest.fail.Exception(clean(str(fault).partition("\n")[0], 500), pytrace=False)


@pytest.fixture
def require_pass(request: pytest.FixtureRequest, verdict: Verdict) -> Callable[[], None]:
    """A function that fails the test, with the gate's message, unless the gate passed."""

    def check() -> None:
        if verdict.is_idle:
            pytest.skip(verdict.skipped)
        if verdict.warns:
            warnings.warn(InconclusiveWarning(explain.doubt(verdict)), stacklevel=2)
        if not verdict.passed:
            request.node.stash[_HEADLINE] = explain.headline(verdict)
            pytest.fail(gate_message.message(verdict), pytrace=False)

    return check


@pytest.fixture
def require_trust(request: pytest.FixtureRequest, judge_figure: Figure) -> Callable[[], None]:
    """A function that fails the test unless the judge passed this check."""
    try:
        outcome = request.config.stash[_SESSION].judge()
    except EvaluationError as fault:
        raise _first_line(fault) from None

    def check() -> None:
        if outcome.check is None:
            pytest.skip(outcome.idle)
        result = next(each for each in outcome.check.checks if each.figure == judge_figure)
        if not result.passed:
            request.node.stash[_HEADLINE] = result.headline
            pytest.fail("\n".join(judge_report.message(result)), pytrace=False)

    if outcome.check:
        request.node.user_properties.extend(judge_report.properties(outcome.check, judge_figure))
    return check


class InconclusiveWarning(UserWarning):
    """A gate is inconclusive, and its threshold file asks for a warning."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the crash message, which becomes an attribute in JUnit, to one line."""
    report = yield
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and _HEADLINE in item.stash:
        crash.message = item.stash[_HEADLINE]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the runs, then write the report files.

    Before xdist's own hook, which waits for its workers: those of an interrupted run wait for
    verdicts.
    """
    gates = session.config.stash[_SESSION]
    if _LIVE in session.config.stash:
        session.config.stash[_LIVE].stop()
    gates.close()
    session.config.stash[_WRITTEN] = list(_written(session.config, gates.runs))


def _written(config: pytest.Config, runs: Sequence[Run]) -> Iterator[str]:
    """Write the reports that were asked for; one line about each."""
    folders = [RunFolder(run.folder) for run in runs]
    for name, report, path in formats.targets(config) if folders else ():
        try:
            report.write(folders, path)
        except (OSError, DataError) as fault:
            yield f"{name} report could not be written: {clean(str(fault))}"
            continue
        yield f"{name} report {path}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table of gates and what else the user should know of the runs."""
    runs, batch = config.stash[_SESSION].runs, config.stash[_SESSION].batch
    if batch is not None:
        terminalreporter.section("batch")
        for text in batch.lines():
            terminalreporter.write_line(text)
    if not runs:
        return
    terminalreporter.write_sep("=", "refusal checks")
    for line in table.lines([run.summary for run in runs], max(0, config.option.verbose)):
        for text, markup in line.pieces:
            terminalreporter.write(text, **markup)
        terminalreporter.line("")
    for text in footer.footer([(run.summary, run.folder) for run in runs]):
        terminalreporter.write_line(text)
    for run in runs:
        for text in footer.unfinished(
            run.progress, run.summary, run.gates, run.store, run.options.fresh
        ):
            terminalreporter.write_line(text)
    for text in github.commands([run.summary for run in runs]):
        terminalreporter.write_line(text)
    for text in config.stash.get(_WRITTEN, []):
        terminalreporter.write_line(text)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the runs of a session that broke off before its end."""
    if _SESSION in config.stash:
        config.stash[_SESSION].close()
