"""The options of gates, declared beside those of pytest and other plugins.

If another plugin or a conftest.py has an option of the same name, ours is called
``--refusal-NAME``. Values are stored under prefixed names (``PREFIX``).
"""

import argparse
import copy
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_origin

import pytest

from refusal_checks import spec
from refusal_checks.core.errors import UserError
from refusal_checks.core.suggestions import near
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.gates import toml_file
from refusal_checks.plugin.names import PREFIX
from refusal_checks.reports import formats
from refusal_checks.spec import NAMED, TABLES, Layer

_ALIAS = "--refusal-"
_TAKEN = pytest.StashKey[frozenset[str]]()

THRESHOLDS, SET = "--thresholds", "--set"
GROUP = ("refusal-checks", "release gates on refusal behaviour")
"""Name and title of the options in ``-h``."""


class Option(NamedTuple):
    """An option to declare: its usual name, and the arguments of ``addoption``."""

    name: str
    settings: Mapping[str, Any]
    key: str = ""  # the key of the run file that it stands for; empty for none

    @property
    def alias(self) -> str:
        """Its name if another plugin has taken the usual one."""
        return _ALIAS + self.name.removeprefix("--")

    @property
    def dest(self) -> str:
        """The attribute in which pytest stores its value."""
        return PREFIX + self.name.removeprefix("--").replace("-", "_")

    def called(self, taken: frozenset[str]) -> str:
        """Its name in this session, where the names in ``taken`` belong to other plugins."""
        return self.alias if self.name in taken else self.name


_METAVARS = {
    "candidate.model": "MODEL",
    "judge.model": "MODEL",
    "candidate.name": "NAME",
    "judge.prompt": "NAME",
    "candidate.args": "ARGS",
    "judge.args": "ARGS",
    "data.mirror": "DIR",
    "reports.runs": "DIR",
    "store.file": "FILE",
    "baseline.path": "PATH",
    "trust.human_labels": "FILE",
}
_KIND_METAVARS = {int: "N", float: "X", str: "TEXT"}


@cache
def all_options() -> tuple[Option, ...]:
    """All options, in the order in which ``-h`` lists them."""
    options = [_named(name, key) for name, key in NAMED.items()]
    files = Option(
        THRESHOLDS,
        {
            "metavar": "FILE",
            "action": "append",
            "help": "run file (repeatable, later ones win), or the name of a shipped one: "
            f"{', '.join(toml_file.names())}; default: the repository's thresholds/default.toml, "
            "else the shipped one",
        },
    )
    any_key = Option(
        SET,
        {
            "metavar": "TABLE.KEY=VALUE",
            "action": "append",
            "help": "set any key of the run file (repeatable): --set judge.max_tokens=2048",
        },
    )
    at = next(
        place
        for place, option in enumerate(options)
        if option.key == "sampling.samples"
    )
    options[at:at] = [files, any_key]
    try:
        for name, module in formats.discover().items():
            if module.OPTION:
                settings = {"metavar": formats.metavar(module), "help": module.HELP}
                options.append(Option(module.OPTION, settings, f"reports.{name}"))
    except UserError as fault:  # two extensions are at odds
        raise pytest.UsageError(clean_lines(str(fault))) from None
    return tuple(options)


def _named(name: str, key: str) -> Option:
    """Make the option of a key, with the key's type and help."""
    kind = spec.key_kind(key)
    text = spec.description(key)
    if kind is bool:
        settings: dict[str, Any] = {
            "action": "store_true",
            "default": None,
            "help": text,
        }
    elif key == "candidate.model":  # a second one is told how to gate several
        settings = {"action": "append", "metavar": _METAVARS[key], "help": text}
    elif get_origin(kind) is tuple:
        text = f"{text} (repeatable)"
        settings = {"action": "append", "metavar": _METAVARS[key], "help": text}
    else:
        metavar = _METAVARS.get(key, _KIND_METAVARS[kind])
        settings = {"type": kind, "metavar": metavar, "help": text}
    return Option(f"--{name}", settings, key)


def layers(config: pytest.Config) -> list[Layer]:
    """The command line's layers of keys; later ones win.

    Raises:
        UserError: a ``--set`` is malformed.
    """
    written = [spec.override(text) for text in value(config, SET) or ()]
    for option in all_options():
        given = value(config, option.name)
        if not option.key or given is None:
            continue
        if option.key == "candidate.model" and len(given) == 1:
            (given,) = given
        if option.name.removeprefix("--") in NAMED:
            written.append(spec.named(option.name, given))
        else:  # a report format
            name = option.key.partition(".")[2]
            written.append(
                Layer({"reports": {name: given}}, where=option.name, option=option.name)
            )
    return written


def value(config: pytest.Config, name: str) -> Any:
    """Return the value of an option; None if it was not given."""
    return getattr(
        config.option, PREFIX + name.removeprefix("--").replace("-", "_"), None
    )


def declare(parser: pytest.Parser, stash: pytest.Stash) -> None:
    """Declare all options; one whose name is taken gets its alias."""
    taken = stash[_TAKEN] = taken_by_others(parser)
    group = parser.getgroup(*GROUP)
    for option in all_options():
        group.addoption(
            option.called(taken), **{**option.settings, "dest": option.dest}
        )


def taken_by_others(parser: pytest.Parser) -> frozenset[str]:
    """Usual names of our options that other plugins have declared."""
    names = (option.name for option in all_options())
    return frozenset(name for name in names if _is_known(parser, name))


def _is_known(parser: pytest.Parser, name: str) -> bool:
    try:
        return name not in parser.parse_known_and_unknown_args([name])[1]
    except pytest.UsageError:  # it lacks its value
        return True


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
"""Options of plugins that ``gate.ini`` disables in ``refusal-checks gate``."""


def suggest(words: Iterable[str], in_gate: bool) -> None:
    """Raise UsageError for an unknown option that looks like a misspelt one of ours.

    ``in_gate`` is true under ``refusal-checks gate``, where every option must belong to gates,
    pytest or an installed plugin.
    """
    names = [option.name for option in all_options()]
    for word in words:
        name = word.partition("=")[0]
        key = _key_of(name)
        if key:
            raise pytest.UsageError(
                f"write --set {key}=VALUE in place of {name}: it is a key of the run file"
            )
        if in_gate and name in _KEPT_OUT:
            message = (
                f"leave out {name}: `refusal-checks gate` keeps out {_KEPT_OUT[name]}, which could "
                "repeat gates or mix them up"
            )
            if "timeout" in name:
                message += "; --set limits.request_timeout=SECONDS limits a request"
            raise pytest.UsageError(message)
        hint = near(name, names, 0.8) if name.startswith("--") else ""
        if hint:
            raise pytest.UsageError(f"unrecognized argument {name}{hint}")
        if in_gate and name.startswith("--"):
            raise pytest.UsageError(
                f"leave out {clean(name, 60)}: no option of gates, of pytest or of a plugin here "
                "has this name; `refusal-checks gate -h` lists them"
            )


def _key_of(name: str) -> str:
    """The run file's key that an option resembles, for example --judge-max-tokens or --top-k."""
    words = name.removeprefix("--").replace("-", "_")
    for table, kind in TABLES.items():
        for key in kind.model_fields:
            if words in (key, f"{table}_{key}") and len(words) > 2:
                return f"{table}.{key}"
    return ""


_KINDS = {"invalid int value": "a whole number", "invalid float value": "a number"}
"""argparse's message on a value of the wrong type, and what to write instead."""


def _parser(taken: frozenset[str] = frozenset()) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False
    )
    for option in all_options():
        parser.add_argument(option.called(taken), dest=option.dest, **option.settings)
    return parser


def require_values(words: Sequence[str], stash: pytest.Stash) -> None:
    """Raise UsageError for an option whose value is missing or of the wrong type."""
    try:
        _parser(stash[_TAKEN]).parse_known_args(words)
    except argparse.ArgumentError as fault:
        option = next(
            declared
            for declared in all_options()
            if fault.argument_name in (declared.name, declared.alias)
        )
        kind, _, value = fault.message.partition(": ")
        if kind in _KINDS:
            message = f"{option.name}: write {_KINDS[kind]}, not {value}"
        elif fault.message.startswith("ignored explicit argument"):
            message = (
                f"{option.name} takes no value: write {option.name}, or leave it out"
            )
        elif "expected" in fault.message:
            form = f"{option.name} {option.settings.get('metavar', '')}".strip()
            message = f"write {form}: {fault.message}"
        else:
            message = f"{option.name}: {fault.message}"
        raise pytest.UsageError(clean_lines(message)) from None


def misread(config: pytest.Config) -> Iterator[str]:
    """A line for each option of this call that another plugin took: it had no effect here."""
    if config.pluginmanager.hasplugin("refusal_checks.plugin.models_as_arguments"):
        return  # there, all names are this package's
    words = {word.partition("=")[0] for word in config.invocation_params.args}
    taken: frozenset[str] = config.stash.get(_TAKEN, frozenset[str]())
    for option in all_options():
        if option.name in words & taken:
            yield f"{option.name} is an option of another plugin here; write {option.alias}"


# pytest chooses its root folder and the first conftest.py files before it knows the options of
# plugins: in ``--candidate /models/new`` it takes the path for a folder with tests.


def join_paths(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Keep paths in options from being searched for conftest.py files and from moving the root."""
    joined = list(_joined(args))
    if joined == args:
        return
    confcutdir = config.known_args_namespace.confcutdir
    namespace = parser.parse_known_args(joined, namespace=copy.copy(config.option))
    config.known_args_namespace = namespace
    namespace.confcutdir = confcutdir
    if (
        namespace.rootdir
        or namespace.inifilename
        or config.rootpath == _root(config, namespace.file_or_dir)
    ):
        return
    raise pytest.UsageError(
        f"write: pytest {shlex.join(joined)}\n"
        "with = between an option and a path: after a space, pytest takes a path that exists for "
        f"one of tests, and {config.rootpath} for the root of the repository"
    )


def _joined(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with ``--name=path`` for ``--name path`` if the path exists."""
    valued = [
        option
        for option in all_options()
        if option.settings.get("action") != "store_true"
    ]
    names: set[str] = set()
    for option in valued:
        names |= {option.name, option.alias}
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
    """The root folder that pytest finds from the paths of tests alone."""
    from _pytest.config.findpaths import get_common_ancestor, locate_config

    folder = config.invocation_params.dir
    start = get_common_ancestor(
        folder, [folder / name.partition("::")[0] for name in tests]
    )
    return locate_config(folder, [start])[0] or get_common_ancestor(
        folder, [folder, start]
    )
