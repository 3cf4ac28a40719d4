"""Files that show finished runs. A new format is one new module here; nothing else is edited.

A module is a format by what it defines (``Format``); with an option it is also a command,
``refusal-checks report NAME FILE RUN...``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

import pytest

from refusal_checks.results.run_folder import RunFolder


class Format(Protocol):
    """What a module of this package defines; it must be light to import.

    Attributes:
        OPTION: pytest's option that names the file, for example ``--html``; empty for none.
        VARIABLE: the environment variable that names it where the option does not; empty for none.
        HELP: what is written, in a few words.
    """

    OPTION: str
    VARIABLE: str
    HELP: str

    def write(self, runs: Sequence[RunFolder], path: Path) -> None:
        """Write the file; runs of several candidates share it.

        Raises:
            OSError: it cannot be written.
            DataError: a run's folder is damaged.
        """


def discover() -> Mapping[str, Format]:
    """All formats by module name."""
    found = (module.name for module in iter_modules(__path__))
    return {name: cast(Format, import_module(f"{__name__}.{name}")) for name in found}


def add(group: pytest.OptionGroup) -> None:
    """Declare the formats' options."""
    for found in discover().values():
        if found.OPTION:
            group.addoption(found.OPTION, metavar="FILE", help=found.HELP)


def targets(config: pytest.Config) -> Iterator[tuple[str, Format, Path]]:
    """The formats that are asked for, with their names and files."""
    for name, found in discover().items():
        option = found.OPTION.lstrip("-").replace("-", "_")
        given = config.getoption(option) if option else None
        given = given or (os.environ.get(found.VARIABLE) if found.VARIABLE else None)
        if given:
            yield name, found, config.invocation_params.dir / given
