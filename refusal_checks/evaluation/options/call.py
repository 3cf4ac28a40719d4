"""One call of pytest as this package's options see it.

Options that are fields of settings take name, type, default and help from the field alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, get_origin

import pytest

if TYPE_CHECKING:  # the plugin loads this file in every session of pytest
    from refusal_checks.core.settings import Settings

PREFIX = "refusal_checks_"
"""Begins the names of configuration keys, and those under which pytest keeps option values."""

INI = {
    "thresholds": ("paths", "threshold files (--thresholds)"),
    "baseline": ("paths", "the run or baseline to compare with (--baseline)"),
    "data": ("paths", "local mirror of public data (--data)"),
    "judge": ("args", "the judge, or judges (--judge)"),
    "rationales": ("args", "when judges of refusal write their reasons (--rationales)"),
    "folder": ("paths", "folder of the store and of runs; default: .refusal-checks in rootdir"),
    "runs": ("paths", "folder of the runs (--runs); default: runs in the folder above"),
}
"""Keys of a repository's pytest configuration, after ``PREFIX``: type and help. Paths are relative
to the configuration file; an option of the same name wins."""

_SEVERAL = {"thresholds", "judge"}


class OptionValues(Protocol):
    """Gives options' values by name, as pytest's configuration does."""

    def getoption(self, name: str) -> Any: ...


class Call:
    """The options, configuration keys and folders of one call of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def getoption(self, name: str) -> Any:
        """An option's value, else that of the configuration key, else the option's default."""
        name = name.removeprefix("--").replace("-", "_")
        value = getattr(self._config.option, PREFIX + name)
        return self._configured(name) if value is None and name in INI else value

    def _configured(self, name: str) -> Any:
        values = [str(value) for value in self._config.getini(PREFIX + name)]
        if not values:
            return None
        return values if name in _SEVERAL else values[0]

    @property
    def folder(self) -> Path:
        return self._config.invocation_params.dir

    @property
    def rootpath(self) -> Path:
        return self._config.rootpath

    @property
    def own_folder(self) -> Path:
        """The folder of the store and, unless they are elsewhere, of runs."""
        return Path(self._configured("folder") or self.rootpath / ".refusal-checks")

    @property
    def runs(self) -> Path:
        from refusal_checks.core.files import resolved  # which few sessions need, as the next one
        from refusal_checks.results.run_folder import RUNS_VARIABLE

        named = self.getoption("runs") or os.environ.get(RUNS_VARIABLE, "").strip()
        if not named:
            return self.own_folder / "runs"
        return resolved(self.folder / Path(named).expanduser())

    def keep_private(self, run: Path | None = None) -> None:
        """Keep git from committing the store and runs, or a run elsewhere: texts may be harmful."""
        from refusal_checks.core.files import resolved

        if run and resolved(self.own_folder) in resolved(run).parents:
            return
        folder = run or self.own_folder
        with suppress(OSError):  # a run that cannot write says so itself
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ".gitignore").open("x") as file:
                file.write("*\n")


_METAVARS = {int: "N", float: "X", str: "TEXT", Path: "FILE"}


def declare(group: pytest.OptionGroup, settings: type[Settings], prefix: str = "") -> None:
    """Declare one option per field of the settings: ``--judge-seed`` with the prefix ``judge_``."""
    for name, field in settings.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, UnionType):  # "int | None"
            kind = get_args(kind)[0]
        text = field.description
        if field.default not in (None, "", ()):
            default = f"{field.default:g}" if isinstance(field.default, float) else field.default
            text = f"{text} (default: {default})"
        if get_origin(kind) is Literal:
            declared = {"choices": get_args(kind), "help": text}
        elif get_origin(kind) is tuple:
            declared = {"action": "append", "metavar": "TEXT", "help": f"{text} (repeatable)"}
        else:
            declared = {"type": kind, "metavar": _METAVARS[kind], "help": text}
        group.addoption(f"--{prefix}{name}".replace("_", "-"), **declared)


def read_settings(
    config: OptionValues, settings: type[Settings], values: Mapping[str, Any], prefix: str = ""
) -> Settings:
    """The settings: an option that was given wins over ``values``, which win over the default."""
    options = {name: config.getoption(prefix + name) for name in settings.model_fields}
    given = {name: value for name, value in options.items() if value is not None}
    return settings.read({**values, **given}, f"--{prefix}".replace("_", "-"))
