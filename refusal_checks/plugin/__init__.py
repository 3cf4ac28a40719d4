"""The pytest plugin: the part that every test session in the environment loads.

It costs almost nothing and changes nothing until an option of this package is given or a gate is
collected. Only then does it import ``refusal_checks.plugin.hooks``, which does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.plugin import options
from refusal_checks.plugin.inconclusive import (
    InconclusiveWarning as InconclusiveWarning,
)
from refusal_checks.plugin.names import INI, PREFIX
from refusal_checks.plugin.xdist import Controller

if TYPE_CHECKING:
    from refusal_checks.evaluation.result import RunResult
    from refusal_checks.gates.gate import Gate
    from refusal_checks.gates.verdict import Verdict
    from refusal_checks.judges.trust.floors import Figure
    from refusal_checks.plugin.hooks import Gates

_GATES = pytest.StashKey["Gates"]()
_FILE = "refusal_gates.py"


def pytest_addoption(
    parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager
) -> None:
    """Declare the configuration keys and the options; `refusal-checks gate` has its own."""
    for name, text in INI.items():
        parser.addini(
            PREFIX + name, f"refusal-checks: {text}", type="paths", default=[]
        )
    if not pluginmanager.has_plugin(options.GATE):
        options.declare(parser, "--refusal-")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Answer an option that no plugin or conftest.py knows, if it was meant for gates."""
    yield
    for word in parser.parse_known_and_unknown_args(args)[1]:
        options.suggest(word, options.prefix(early_config))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin's main part now if the gates' options were declared."""
    controller = Controller(
        lambda: config.stash.get(_GATES, None), lambda: activate(config)
    )
    _register(config, controller, "refusal_checks.controller")
    if options.given(config):
        activate(config).check_files()


def activate(config: pytest.Config) -> Gates:
    """Return the part of the plugin that handles gates; load and register it on the first call."""
    if _GATES not in config.stash:
        from refusal_checks.plugin.hooks import Gates

        config.stash[_GATES] = gates = Gates(config)
        _register(config, gates, "refusal_checks.gates")
        _register(config, gates.outcomes, "refusal_checks.outcomes")
        _register(config, gates.end, "refusal_checks.end")
    return config.stash[_GATES]


def _register(config: pytest.Config, part: object, name: str) -> None:
    if config.pluginmanager.register(part, name) is None:
        raise pytest.UsageError(f"leave out -p no:{name}: gates need this plugin")


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Collect the test file of ``refusal-checks init`` if an option of gates is given."""
    patterns = parent.config.getini("python_files")
    is_named = parent.session.isinitpath(file_path) or any(
        map(file_path.match, patterns)
    )
    if file_path.name != _FILE or is_named or not options.given(parent.config):
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
    """Make a test for each gate and each check of the judge; reads only the run files."""
    # pytest has no public way to ask which fixtures a test knows.
    fixtures = metafunc.definition._fixtureinfo.name2fixturedefs
    for name, definitions in fixtures.items():
        modules = [definition.func.__module__ for definition in definitions]
        if __name__ in modules[:-1]:
            raise pytest.UsageError(
                f"{modules[-1]}: rename the fixture {name}: it replaces the one that "
                "decides gates"
            )
    ours = {"refusal_verdict", "refusal_judge_figure"}
    if ours & set(metafunc.fixturenames):
        activate(metafunc.config).parametrize(metafunc)


@pytest.fixture(scope="session")
def refusal_result(request: pytest.FixtureRequest) -> RunResult:
    """The result of this session's evaluation, for a repository's own tests."""
    return activate(request.config).outcomes.result()


@pytest.fixture
def refusal_verdict(
    request: pytest.FixtureRequest, refusal_gate: Gate | str
) -> Verdict | None:
    """The verdict of the test's gate; None for a benchmark that is only measured."""
    return activate(request.config).outcomes.verdict(request, refusal_gate)


@pytest.fixture
def refusal_require_pass(
    request: pytest.FixtureRequest, refusal_verdict: Verdict | None
) -> Callable[[], None]:
    """A function that fails the test, with the gate's message, unless the gate passed."""
    return activate(request.config).outcomes.pass_check(request, refusal_verdict)


@pytest.fixture
def refusal_require_trust(
    request: pytest.FixtureRequest, refusal_judge_figure: Figure
) -> Callable[[], None]:
    """A function that fails the test unless the judge passed this check."""
    return activate(request.config).outcomes.trust_check(request, refusal_judge_figure)
