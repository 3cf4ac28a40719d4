"""The options of gates, declared beside those of pytest and other plugins.

Every option has a second name, ``--refusal-NAME``, which is accepted even if ``--NAME`` belongs to
another plugin or a conftest.py. Values are kept under names of their own (``PREFIX``).
"""

import argparse
import copy
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.core.suggestions import near
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.evaluation.options import command_line
from refusal_checks.evaluation.options.call import PREFIX
from refusal_checks.reports import formats

_ALIAS = "--refusal-"
_TAKEN = pytest.StashKey[frozenset[str]]()


class Option(NamedTuple):
    """One option as it is declared: its usual name, and the arguments of ``addoption``."""

    name: str
    settings: Mapping[str, Any]

    @property
    def alias(self) -> str:
        """The name that no other plugin takes."""
        return _ALIAS + self.name.removeprefix("--")

    @property
    def dest(self) -> str:
        """The name under which pytest keeps its value."""
        return PREFIX + self.name.removeprefix("--").replace("-", "_")

    def names(self, taken: frozenset[str] = frozenset()) -> list[str]:
        """Its names, the alias last; the usual one only if nobody else has taken it."""
        return [self.alias] if self.name in taken else [self.name, self.alias]


class Recorder:
    """Stands in for an option group and keeps the options that are declared."""

    def __init__(self) -> None:
        self.options: list[Option] = []

    def addoption(self, name: str, **settings: Any) -> None:
        self.options.append(Option(name, settings))


@cache
def known() -> tuple[Option, ...]:
    recorder = Recorder()
    group = cast(pytest.OptionGroup, recorder)
    command_line.add(group)
    try:
        formats.add(group)
    except UserError as fault:  # two extensions are at odds
        raise pytest.UsageError(clean_lines(str(fault))) from None
    return tuple(recorder.options)


def declare(parser: pytest.Parser, stash: pytest.Stash) -> None:
    """Declare all options; one whose name is taken has its second name only."""
    names = (option.name for option in known())
    taken = stash[_TAKEN] = frozenset(name for name in names if _is_known(parser, name))
    group = parser.getgroup("refusal-checks", "release gates on refusal behaviour")
    for option in known():
        settings = {**option.settings, "dest": option.dest}
        *usual, alias = option.names(taken)
        for name in usual:
            group.addoption(name, **settings)
            settings["help"] = argparse.SUPPRESS
        group.addoption(alias, **settings)


def _is_known(parser: pytest.Parser, name: str) -> bool:
    try:
        return name not in parser.parse_known_and_unknown_args([name])[1]
    except pytest.UsageError:  # it lacks its value
        return True


_GONE = {"--watch": formats.NO_WATCH, **{name: formats.moved(name) for name in formats.MOVED}}
"""Options of earlier versions, and what to write instead."""


_KEPT_OUT = {
    "--asyncio-mode": "pytest-asyncio",
    "--count": "pytest-repeat",
    "--randomly-seed": "pytest-randomly",
    "--reruns": "pytest-rerunfailures",
    "--reruns-delay": "pytest-rerunfailures",
    "--self-contained-html": "pytest-html",
    "--session-timeout": "pytest-timeout",
    "--timeout": "pytest-timeout",
    "--timeout-method": "pytest-timeout",
}
"""Options of the plugins that ``gate.ini`` keeps out of ``refusal-checks gate``."""


def suggest(words: Iterable[str], in_gate: bool) -> None:
    """Answer an unknown option: with the right one if it is misspelt.

    ``in_gate`` is true under ``refusal-checks gate``, whose words are all options of gates, of
    pytest or of a plugin that is there.
    """
    names = [option.name for option in known()]
    for word in words:
        name = word.partition("=")[0]
        if name in _GONE:
            raise pytest.UsageError(f"{name}: {_GONE[name]}")
        if in_gate and name in _KEPT_OUT:
            said = (
                f"leave out {name}: `refusal-checks gate` keeps out {_KEPT_OUT[name]}, which could "
                "end a wait for a verdict, ask for one again or mix up the gates"
            )
            if "timeout" in name:
                said += "; --request-timeout SECONDS limits a request"
            raise pytest.UsageError(said)
        if name.startswith("--") and (hint := near(name, names, 0.8)):
            raise pytest.UsageError(f"unrecognized argument {name}{hint}")
        if in_gate and name.startswith("--"):
            raise pytest.UsageError(
                f"leave out {clean(name, 60)}: no option of gates, of pytest or of a plugin here "
                "has this name; `refusal-checks gate -h` lists them"
            )


_KINDS = {"invalid int value": "a whole number", "invalid float value": "a number"}
"""What argparse says of a value of the wrong type, and what to write."""


def _parser(taken: frozenset[str] = frozenset()) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for option in known():
        parser.add_argument(*option.names(taken), dest=option.dest, **option.settings)
    return parser


def require_values(words: Sequence[str], stash: pytest.Stash) -> None:
    """Answer an option without its value, or with one of another type, in plain words."""
    try:
        _parser(stash[_TAKEN]).parse_known_args(words)
    except argparse.ArgumentError as fault:
        names = str(fault.argument_name).split("/")
        option = next(each for each in known() if each.alias in names)
        kind, _, value = fault.message.partition(": ")
        if kind in _KINDS:
            said = f"{option.name}: write {_KINDS[kind]}, not {value}"
        elif fault.message.startswith("ignored explicit argument"):
            said = f"{option.name} takes no value: write {option.name}, or leave it out"
        elif "expected" in fault.message:
            form = f"{option.name} {option.settings.get('metavar', '')}".strip()
            said = f"write {form}: {fault.message}"
        else:
            said = f"{option.name}: {fault.message}"
        raise pytest.UsageError(clean_lines(said)) from None


def fill(config: pytest.Config) -> None:
    """Give all options their defaults if none was declared, because none was given."""
    for name, value in vars(_parser().parse_args([])).items():
        if not hasattr(config.option, name):
            setattr(config.option, name, value)


def misread(config: pytest.Config) -> Iterator[str]:
    """A line for each option of this call that another plugin took: it did nothing here."""
    if config.pluginmanager.hasplugin("refusal_checks.plugin.models_as_arguments"):
        return  # there, all names are this package's
    words = {word.partition("=")[0] for word in config.invocation_params.args}
    taken: frozenset[str] = config.stash.get(_TAKEN, frozenset[str]())
    for option in known():
        if option.name in words & taken:
            yield f"{option.name} is an option of another plugin here; write {option.alias}"


# pytest chooses its root folder, and the conftest.py files that it loads first, before it knows the
# options of plugins: in ``--candidate /models/new`` the folder looks like one with tests.


def join_paths(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Keep such paths from being searched for conftest.py files, and from moving the root."""
    joined = list(_joined(args))
    if joined == args:
        return
    confcutdir = config.known_args_namespace.confcutdir
    known = parser.parse_known_args(joined, namespace=copy.copy(config.option))
    config.known_args_namespace = known
    known.confcutdir = confcutdir
    if known.rootdir or known.inifilename or config.rootpath == _root(config, known.file_or_dir):
        return
    raise pytest.UsageError(
        f"write: pytest {shlex.join(joined)}\n"
        "with = between an option and a path: after a space, pytest takes a path that exists for "
        f"one of tests, and {config.rootpath} for the root of the repository"
    )


def _joined(args: Sequence[str]) -> Iterator[str]:
    """The arguments, with ``--name=path`` for ``--name path`` where the path exists."""
    valued = [option for option in known() if option.settings.get("action") != "store_true"]
    names = {name for option in valued for name in option.names()}
    words = iter(args)
    for word in words:
        value = next(words, None) if word in names else None
        if value is None:
            yield word
        elif os.path.exists(value):  # noqa: PTH110 - a text too long for a path is not one
            yield f"{word}={value}"
        else:
            yield from (word, value)


def _root(config: pytest.Config, tests: Sequence[str]) -> Path:
    """The root folder as pytest finds it from the paths of tests alone."""
    from _pytest.config.findpaths import get_common_ancestor, locate_config

    folder = config.invocation_params.dir
    start = get_common_ancestor(folder, [folder / name.partition("::")[0] for name in tests])
    return locate_config(folder, [start])[0] or get_common_ancestor(folder, [folder, start])
