"""Plugin of ``refusal-checks gate``: pytest's positional argument is the model.

An argument that is the id of a gate's test, as ``--collect-only`` prints it, selects that gate.
"""

import re
from pathlib import Path
from typing import NoReturn

import pytest

from refusal_checks.core.text import clean
from refusal_checks.plugin import options, xdist
from refusal_checks.plugin.parameters import NAMED_TESTS, is_named

SUITE = Path(__file__).parents[1] / "suite.py"
_TEST = re.compile(r".+\.py::(test_(?:gate|judge)(?:\[.*\])?)")
"""The id of one gate's test or of all, whatever file it was collected from."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options by their short names: no plugin is loaded that could have them."""
    parser.prog = "refusal-checks gate"
    options.declare(parser, "--")
    # Before version 9, pytest makes its parser later, and its own message stays.
    if hasattr(parser, "optparser"):
        parser.optparser.error = _refuse  # type: ignore[method-assign]


def _refuse(message: str) -> NoReturn:
    """Report what the parser found, without pytest's own usage and files."""
    raise pytest.UsageError(f"{message} (`refusal-checks gate -h` lists the options)")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use what pytest took for a path of tests as the model under test."""
    tests, models = [], []
    # With -h, pytest 9.2 stops before it reads paths.
    for word in getattr(config.option, "file_or_dir", ()):
        test = _TEST.fullmatch(word)
        if test:
            tests.append(test[1])
        else:
            models.append(word)
    named = config.option.refusal_candidate
    # xdist hands a worker both: the argument, and the option that the controller has set.
    if models and named and not xdist.is_worker(config):
        raise pytest.UsageError(
            f"leave out {clean(models[0])} or --candidate {clean(named[0])}: each names the model "
            "under test"
        )
    config.stash[NAMED_TESTS] = tests
    config.option.refusal_candidate = models or named
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
