"""``refusal-checks gate``: run pytest for the gates only, without a folder's own configuration.

The command takes its own options and passes on all others. This module is also its plugin.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import pytest

from refusal_checks.config.tables import TABLES
from refusal_checks.core.errors import UserError
from refusal_checks.core.text import sanitize
from refusal_checks.plugin.options import GATE, OPTIONS
from refusal_checks.results import project, run_folder

ABOUT = """\
Gate a release: ask the model under test, let the judge read its answers, and
decide every gate of the run file.

MODEL is ORG/MODEL, a folder, a server (http://HOST:PORT/v1#MODEL), replay:FILE
or PREFIX:NAME of an extension. Answers and runs are kept in .refusal-checks."""

MORE = """\
Exit codes: 0 every gate passed; 1 one failed or could not be evaluated; 4 wrong
input; 7 all passed, but something was not proven; 16 an engine did not start.

pytest's options work, too: -k EXPR selects gates, --collect-only -q lists them,
-v shows all figures, -n 2 uses two workers, --junitxml FILE writes JUnit;
--help-pytest lists them all."""

SUITE = Path(__file__).parents[1] / "suite.py"
_OF_PYTEST = (
    *("-k", "-m", "-n", "-p", "-r", "-W", "-o", "--dist", "--junitxml", "--maxfail"),
    *("--basetemp", "--color", "--durations", "--tb"),
)
"""Options of pytest whose values may follow a space."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (`refusal-checks gate -h` lists the options)")


def _parser() -> _Parser:
    parser = _Parser(
        prog="refusal-checks gate",
        usage="%(prog)s MODEL [options]",
        description=ABOUT,
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("models", nargs="*", help=argparse.SUPPRESS)
    for name in _OF_PYTEST:
        parser.add_argument(name, action="append", help=argparse.SUPPRESS)
    group = parser.add_argument_group("options")
    for option in OPTIONS:
        name = f"--{option.name}"
        if option.metavar:
            group.add_argument(
                name, metavar=option.metavar, help=option.about, action="append"
            )
        else:
            group.add_argument(name, action="store_true", help=option.about)
    return parser


def run(folder: Path, words: Sequence[str]) -> int:
    """Gate a model in a folder; return the exit code.

    Args:
        words: the command's arguments: the model, options of gates and options of pytest.

    Raises:
        UserError: an option is wrong.
    """
    if {"-h", "--help"} & set(words):
        print(_parser().format_help().rstrip())
        return 0
    # These set pytest up for the folder's other tests.
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    return int(pytest.main(arguments(folder, words)))


def arguments(folder: Path, words: Sequence[str]) -> list[str]:
    """Return pytest's arguments for a gate run in a folder."""
    runs = project.default_runs_folder(folder)
    moved = f"{project.RUNS_KEY}={shlex.quote(str(folder / runs))}"
    return [
        # A configuration of ours, and no conftest.py: a gate is the same in every folder. The root
        # stays the folder, where the store and the runs are.
        *("-c", str(Path(__file__).parent / "gate_command.ini"), f"--rootdir={folder}"),
        *("--noconftest", "-p", GATE, "-p", "refusal_checks.plugin"),
        *(() if runs == run_folder.ROOT else ("-o", moved)),
        *_translate(words),
        # The package was loaded before pytest could rewrite its assertions, of which it has none.
        # This must follow the user's own -W error.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    ]


def _translate(words: Sequence[str]) -> Iterator[str]:
    """Rewrite gate options for pytest: ``--limit 4`` becomes ``--refusal-limit=4``."""
    given, others = _parser().parse_known_intermixed_args(words)
    models, named = given.models, given.candidate
    for word in models:
        if ".py::" in word:
            raise UserError(f"select gates with -k in place of {sanitize(word)}")
        if word.endswith(".toml"):
            raise UserError(
                f"write --thresholds {sanitize(word)}: a run file is not a model"
            )
    if models and named:
        raise UserError(
            f"leave out {sanitize(models[0])} or --candidate {sanitize(named[0])}: each names the "
            "model under test"
        )
    for word in others:
        _suggest(word)
        yield "--help" if word == "--help-pytest" else word
    given.candidate = models or named
    for option in OPTIONS:
        value = getattr(given, option.name.replace("-", "_"))
        if value is True:
            yield f"--refusal-{option.name}"
        for text in value if isinstance(value, list) else ():
            yield f"--refusal-{option.name}={text}"
    for name in _OF_PYTEST:
        for text in getattr(given, name.lstrip("-")) or ():
            yield f"{name}={text}" if name.startswith("--") else f"{name}{text}"


def _suggest(word: str) -> None:
    """Raise UserError for an unknown option that resembles one of ours, or a key."""
    name = word.partition("=")[0]
    if not name.startswith("--"):
        return
    bare = name.removeprefix("--refusal-").removeprefix("--")
    close = get_close_matches(bare, [option.name for option in OPTIONS], 1, 0.8)
    if close:
        raise UserError(f"write --{close[0]} in place of {name}")
    words = bare.replace("-", "_")
    for table, kind in TABLES.items():
        for key in kind.model_fields:
            if words in (key, f"{table}_{key}"):
                raise UserError(
                    f"write --set {table}.{key}=VALUE in place of {name}: it is a key of the run "
                    "file"
                )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Report mistakes that pytest's parser finds, without pytest's usage and files."""

    def refuse(message: str) -> NoReturn:
        remedy = "`refusal-checks gate -h` lists the options"
        kind, _, words = message.partition(": ")
        if kind == "unrecognized arguments":
            key = shlex.quote(f"candidate.args={words}")
            remedy = f"{remedy}; for one of the engine's, write --set {key}"
        raise pytest.UsageError(f"{message} ({remedy})")

    # Before version 9, pytest makes its parser later, and its own message stays.
    if hasattr(parser, "optparser"):
        parser.optparser.error = refuse  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    # In place of the tests that pytest would collect from this folder.
    config.args = [str(SUITE)]
    config.cwd_relative_nodeid = _short_id  # type: ignore[assignment,method-assign]


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module:
    """Give gates the same ids in every folder, and keep the package's name out of ``-k``."""
    module = pytest.Module.from_parent(
        parent, path=module_path, nodeid="refusal_checks/suite.py"
    )
    module.name = "suite.py"
    return module


class _ShortId(str):
    """Shows a gate's id as a node id; pytest 9.2 parses ids, earlier versions split strings."""

    __slots__ = ()
    path, rest = property(str), None


def _short_id(nodeid: object) -> _ShortId:
    _, _, test = str(nodeid).rpartition("::")
    return _ShortId(
        test.removeprefix("test_gate[").removesuffix("]") if "gate[" in test else test
    )
