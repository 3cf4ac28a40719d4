"""Plugin of ``refusal-checks gate``: pytest's positional argument is the model.

An argument that is the id of a gate's test, as ``--collect-only`` prints it, selects that gate.
"""

import re
from pathlib import Path

import pytest

from refusal_checks.plugin import options
from refusal_checks.plugin.gate_session import NAMED_TESTS, is_named
from refusal_checks.plugin.names import CANDIDATE

SUITE = Path(__file__).parents[1] / "suite.py"
_TEST = re.compile(r".+\.py::(test_(?:gate|judge)(?:\[.*\])?)")
"""The id of one gate's test or of all, whatever file it was collected from."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make pytest's messages name the command that was typed, and ``-h`` list its options early."""
    parser.prog = "refusal-checks gate"
    parser.getgroup(*options.GROUP, after="general")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Let the gates' options keep their usual names, even if another plugin has them too."""
    taken = options.taken_by_others(parser)
    aliases = {option.name: option.called(taken) for option in options.all_options()}
    parts = [word.partition("=") for word in args]
    args[:] = [
        f"{aliases.get(name, name)}{equals}{value}" for name, equals, value in parts
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Use what pytest took for a path of tests as the model under test."""
    named = getattr(config.option, CANDIDATE, None) or []
    # At -h pytest 9.2 stops reading its arguments, and there are no paths.
    tests, models = [], []
    for word in [*getattr(config.option, "file_or_dir", ()), *named]:
        test = _TEST.fullmatch(word)
        if test:
            tests.append(test[1])
        else:
            models.append(word)
    config.stash[NAMED_TESTS] = tests
    setattr(config.option, CANDIDATE, models or None)
    config.args = [str(SUITE)]
    config.cwd_relative_nodeid = _shown  # type: ignore[assignment,method-assign]


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Deselect all other tests if some are named; the session reports names that do not exist."""
    tests = config.stash[NAMED_TESTS]
    if tests:
        named: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            is_one = any(is_named(item.name, test) for test in tests)
            (named if is_one else others).append(item)
        items[:] = named
        config.hook.pytest_deselected(items=others)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module:
    """Give gates the same ids in every folder, wherever this package is installed."""
    return pytest.Module.from_parent(
        parent, path=module_path, nodeid="refusal_checks/suite.py"
    )


class _Shown(str):
    """Shows a gate's id as a node id; pytest 9.2 parses ids, earlier versions split strings."""

    __slots__ = ()
    path, rest = property(str), None


def _shown(nodeid: object) -> _Shown:
    _, _, test = str(nodeid).rpartition("::")
    return _Shown(
        test.removeprefix("test_gate[").removesuffix("]") if "gate[" in test else test
    )
