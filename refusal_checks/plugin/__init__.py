"""The pytest plugin: the part that every test session in the environment loads.

It costs almost nothing and changes nothing until one of its options is given or a gate is
collected. Only then does it import ``refusal_checks.plugin.session``, which does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.plugin import options, xdist

if TYPE_CHECKING:
    from refusal_checks.api.result import RunResult
    from refusal_checks.gates.gate import Gate
    from refusal_checks.gates.verdict import Verdict
    from refusal_checks.plugin.session import GateSession
    from refusal_checks.trust.minimums import Figure

_GATES = pytest.StashKey["GateSession"]()
_FILE = "refusal_gates.py"


class InconclusiveWarning(UserWarning):
    """Issued for an inconclusive gate if its run file asks for a warning."""


def pytest_addoption(parser: pytest.Parser) -> None:
    options.declare(parser)


# tryfirst: a mistake ends the session before other plugins start servers or open files.
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the run files before collection if an option of gates is given."""
    if options.option_values(config):
        _ = activate(config).benchmarks


def activate(config: pytest.Config) -> GateSession:
    """Return the part of the plugin that handles gates; load and register it on the first call."""
    if _GATES not in config.stash:
        from refusal_checks.plugin.session import GateSession

        config.stash[_GATES] = gates = GateSession(config)
        name = "refusal_checks.gates"
        if config.pluginmanager.register(gates, name) is None:
            raise pytest.UsageError(f"leave out -p no:{name}: gates need this plugin")
    return config.stash[_GATES]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker the name of the run."""
    node.workerinput[xdist.KEY] = xdist.run_id(node.config)
    xdist.survive_worker(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Evaluate the first worker's gates in the controller; all workers collect the same.

    No worker gets a test before this returns.
    """
    if _GATES in node.config.stash or xdist.signal(node.config).exists():
        activate(node.config).start(ids)


# By now xdist has ended its workers, of which one might have made the file again.
@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if xdist.has_workers(config):
        xdist.signal(config).unlink(missing_ok=True)


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Collect the test file of ``refusal-checks init`` if an option of gates is given."""
    # Its name fits none of pytest's patterns, so that a bare `pytest` asks no model anything. If it
    # does fit, or stands on the command line, pytest collects it, and must not do so twice.
    patterns = parent.config.getini("python_files")
    is_named = parent.session.isinitpath(file_path) or any(
        map(file_path.match, patterns)
    )
    if file_path.name != _FILE or is_named or not options.option_values(parent.config):
        return None
    return pytest.Module.from_parent(parent, path=file_path)


def pytest_terminal_summary(
    terminalreporter: Any, exitstatus: int, config: pytest.Config
) -> None:
    """Say where gates are if no tests were collected."""
    is_empty = (
        exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and _GATES not in config.stash
    )
    if is_empty and (config.rootpath / "gates" / _FILE).is_file():
        terminalreporter.write_line(
            "gates need a model: add --refusal-candidate=MODEL --refusal-judge=JUDGE"
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each gate and each check of the judge, from the run files alone."""
    ours = {"refusal_verdict", "refusal_judge_figure"}
    if ours & set(metafunc.fixturenames):
        activate(metafunc.config).parametrize(metafunc)


@pytest.fixture(scope="session")
def refusal_result(request: pytest.FixtureRequest) -> RunResult:
    """The result of this session's evaluation, for a repository's own tests."""
    return activate(request.config).result()


@pytest.fixture
def refusal_verdict(
    request: pytest.FixtureRequest, refusal_gate: Gate | str
) -> Verdict | None:
    """The verdict of the test's gate; None for a benchmark that is only measured."""
    result = activate(request.config).result()
    from refusal_checks.plugin import outcomes

    return outcomes.report_verdict(request.node, result.summary, refusal_gate)


@pytest.fixture
def refusal_require_pass(
    request: pytest.FixtureRequest, refusal_verdict: Verdict | None
) -> Callable[[], None]:
    """A function that fails the test, with the gate's message, unless the gate passed."""
    from refusal_checks.plugin import outcomes

    return partial(outcomes.require_pass, request.node, refusal_verdict)


@pytest.fixture
def refusal_require_trust(
    request: pytest.FixtureRequest, refusal_judge_figure: Figure
) -> Callable[[], None]:
    """A function that fails the test unless the judge passed this check."""
    summary = activate(request.config).result().summary
    from refusal_checks.plugin import outcomes

    # Here, in set-up, a failure is pytest's ERROR: nothing is known about the judge.
    outcomes.require_check(summary)
    return partial(outcomes.require_trust, request.node, summary, refusal_judge_figure)
