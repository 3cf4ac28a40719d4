"""Files that show finished runs. A format is a module here, or an extension.

A module is a format if it defines what ``Format`` lists. If it has an option, it is also a kind of
``refusal-checks report KIND RUN... --out FILE``. It may also define

- ``METAVAR``: what the option takes in place of a FILE, for example ``PROJECT``. The path that
  ``write`` is given is then that word as it is, and no report is said to be at it.
- ``check()``: raises UserError before an engine starts if the report could not be written.
- ``follow(runs, path, say)``: shows runs (``results.progress.Underway``) while they go on, until
  ``stop()`` of what it returns is called; ``say`` prints a line. It must not fail.
- ``written()``: what became of the report, in a few words, if METAVAR is not FILE.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest

from refusal_checks.core import extensions
from refusal_checks.core.errors import UserError
from refusal_checks.core.extensions import ExtensionError
from refusal_checks.results.run_folder import RunFolder, require_writable

if TYPE_CHECKING:
    from refusal_checks.results.progress import Underway

FILE = "FILE"

MOVED = ("--mlflow", "--wandb", "--model-card")  # until 0.1 here, now in another distribution
_MOVED_VARIABLES = ("REFUSAL_CHECKS_MLFLOW", "REFUSAL_CHECKS_WANDB", "REFUSAL_CHECKS_WEBHOOK")

NO_WATCH = (
    "write --html FILE and open it in a browser: the page follows the run, and becomes its report"
)
"""What to do in place of ``--watch`` and ``refusal-checks watch``."""


def moved(name: str) -> str:
    """What to do about an option or a variable that has moved to another distribution."""
    return f"install refusal-checks-extensions, which has {name} now (docs/how-to/elsewhere.md)"


class Format(Protocol):
    """Interface of a module in this package, which must be light to import."""

    OPTION: str  # the pytest option that takes the file, for example --html; empty for none
    VARIABLE: str  # the environment variable that replaces the option; empty for none
    HELP: str  # what is written, in a few words

    def write(self, runs: Sequence[RunFolder], path: Path) -> None:
        """Write one file about all runs.

        Raises:
            OSError: the file cannot be written.
            DataError: a run's folder is damaged.
        """


class Invocation(Protocol):
    """What targets are read from: a call of pytest, and the folder that its paths start from."""

    @property
    def folder(self) -> Path: ...

    def getoption(self, name: str) -> Any: ...


class Follower(Protocol):
    def stop(self) -> None: ...


def discover() -> Mapping[str, Format]:
    """All formats by module name; ExtensionError if names or options clash, or one lacks a part."""
    found: dict[str, Format] = {}
    names, options = extensions.Names("report formats"), extensions.Names("options of reports")
    for one in extensions.providers(__name__, __path__, "OPTION"):
        lacking = ", ".join(name for name in ("VARIABLE", "HELP", "write") if not one.has(name))
        if lacking and one.origin != extensions.OWN:
            raise ExtensionError(f"extension {one.origin}: a report format also needs {lacking}")
        names.add(one.name, one.origin)
        found[one.name] = cast(Format, one.module)
        if found[one.name].OPTION:
            options.add(found[one.name].OPTION, one.origin)
    return found


def add(group: pytest.OptionGroup) -> None:
    for module in discover().values():
        if module.OPTION:
            group.addoption(module.OPTION, metavar=metavar(module), help=module.HELP)


def metavar(module: Format) -> str:
    return str(getattr(module, "METAVAR", FILE))


def targets(call: Invocation) -> Iterator[tuple[str, Format, Path]]:
    """The requested formats, with their names and files."""
    for name, module in discover().items():
        option = module.OPTION.lstrip("-").replace("-", "_")
        path = None
        with suppress(AttributeError):  # not declared: its threshold file was read later
            path = call.getoption(option) if option else None
        path = path or (os.environ.get(module.VARIABLE) if module.VARIABLE else None)
        if path:
            yield name, module, call.folder / path if metavar(module) == FILE else Path(path)


def follow(
    call: Invocation, runs: Sequence[Underway], say: Callable[[str], None]
) -> Iterator[Follower]:
    for _, module, path in targets(call):
        if starts := getattr(module, "follow", None):
            yield starts(runs, path, say)


def check(call: Invocation) -> None:
    """Raise UserError if a report that is asked for could not be written."""
    known = {module.VARIABLE for module in discover().values()}
    for variable in _MOVED_VARIABLES:
        if os.environ.get(variable) and variable not in known:
            raise UserError(f"{moved(f'${variable}')}, or unset it")
    for _, module, path in targets(call):
        if metavar(module) == FILE:
            given = f"{module.OPTION or module.VARIABLE} {path}"
            try:
                is_folder = path.is_dir()
            except OSError as fault:
                raise UserError(f"{given}: name a file: {fault.strerror}") from None
            if is_folder:
                raise UserError(f"{given}: name a file: it is a folder")
            require_writable(path.parent, f"{given}:")
        getattr(module, "check", lambda: None)()


def written(name: str, module: Format, path: Path) -> str:
    """The line about a report that was written; a target other than a file may be a secret."""
    if metavar(module) == FILE:
        return f"{name} report {path}"
    return f"{name} report {getattr(module, 'written', lambda: 'passed on')()}"
