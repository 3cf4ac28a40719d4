"""Existing paths after an option and a space, which pytest takes for test paths.

pytest chooses its root folder, and the conftest.py files that it loads first, before it knows the
options of plugins: in ``--candidate /models/new`` the folder looks like one with tests.
"""

from __future__ import annotations

import copy
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from refusal_checks.plugin import options

_CONFIGURATION = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"),
    *("pyproject.toml", "tox.ini", "setup.cfg"),
)
"""Files in which pytest looks for its configuration."""


def check(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Keep such paths from being searched for conftest.py files.

    Raises:
        pytest.UsageError: they led to another root folder; the message has the line to write.
    """
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
    valued = [option for option in options.known() if option.takes_value]
    names = {option.name for option in valued} | {option.alias for option in valued}
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
    folder = config.invocation_params.dir
    paths = [folder / name.partition("::")[0] for name in tests]
    places = [path for path in paths if path.exists()] or [folder]
    start = Path(os.path.commonpath([str(path) for path in places]))
    for place in (start, *start.parents):
        if any((place / name).is_file() for name in _CONFIGURATION):
            return place
    return Path(os.path.commonpath([str(folder), str(start)]))
