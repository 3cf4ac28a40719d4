"""Report formats: files that show a finished run. A format is a module here or an extension.

A module is a format if it defines what ``Format`` lists. Its name is a key of the run file's
``[reports]`` and a kind of ``refusal-checks report KIND RUN --out FILE``. It may also define

- ``USUAL_FILE``: the file that this command writes where ``--out`` names none.
- ``METAVAR``: what the key takes in place of a FILE, for example ``PROJECT``. The path that
  ``write`` is given is then that word as it is, and no report is said to be at it.
- ``check()``: raises UserError before an engine starts if the report could not be written.
- ``written()``: what became of the report, in a few words, if METAVAR is not FILE.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, cast

from refusal_checks.core import extensions
from refusal_checks.core.errors import UserError, require_known
from refusal_checks.core.extensions import ExtensionError
from refusal_checks.core.files import resolved
from refusal_checks.results.run_folder import RunFolder, require_writable
from refusal_checks.spec import ReportsTable

FILE = "FILE"


class Format(Protocol):
    """Interface of a module in this package, which must be quick to import."""

    VARIABLE: str  # the environment variable that replaces the key; empty for none
    HELP: str  # what is written, in a few words

    def write(self, run: RunFolder, path: Path) -> None:
        """Write one file about the run.

        Raises:
            OSError: the file cannot be written.
            DataError: the run's folder is damaged.
        """


def discover() -> Mapping[str, Format]:
    """Return all formats by module name; ExtensionError if names clash or one is incomplete."""
    modules: dict[str, Format] = {}
    names = extensions.Names("report formats")
    for provider in extensions.providers(__name__, __path__, "HELP"):
        required = ("VARIABLE", "write")
        lacking = ", ".join(name for name in required if not provider.has(name))
        if lacking and provider.origin != extensions.OWN:
            raise ExtensionError(
                f"extension {provider.origin}: a report format also needs {lacking}"
            )
        module = cast(Format, provider.module)
        names.add(provider.name, provider.origin)
        modules[provider.name] = module
    return modules


def metavar(module: Format) -> str:
    return str(getattr(module, "METAVAR", FILE))


def usual_file(module: Format) -> str:
    """The file that ``refusal-checks report`` writes by default; empty if it must be named."""
    return str(getattr(module, "USUAL_FILE", ""))


def targets(reports: ReportsTable) -> Iterator[tuple[str, Format, Path]]:
    """Yield the formats that a spec or the environment asks for, with names and files."""
    for name, module in discover().items():
        named = reports.target(name)
        if not named and module.VARIABLE:
            named = os.environ.get(module.VARIABLE, "")
        if named:
            yield (
                name,
                module,
                Path.cwd() / named if metavar(module) == FILE else Path(named),
            )


def check(reports: ReportsTable) -> None:
    """Raise UserError if a requested report could not be written."""
    for name in reports.formats:
        require_known(name, discover(), "[reports]", "report", UserError)
    taken: dict[Path, str] = {}
    for name, module, path in targets(reports):
        if metavar(module) == FILE:
            given = "--html" if name == "html" else f"reports.{name}"
            _require_file(given, path)
            _require_apart(given, path, taken)
        getattr(module, "check", lambda: None)()


def _require_file(given: str, path: Path) -> None:
    """Refuse a path to which no file can be written."""
    try:
        is_folder = path.is_dir()
    except OSError as fault:
        raise UserError(f"{given} {path}: name a file: {fault.strerror}") from None
    if is_folder:
        raise UserError(f"{given} {path}: name a file: it is a folder")
    require_writable(path.parent, f"{given} {path}:")


def _require_apart(given: str, path: Path, taken: dict[Path, str]) -> None:
    """Refuse a file that another report uses: the second would replace the first."""
    place = resolved(path)
    if place in taken:
        raise UserError(
            f"{given} {path}: name another file: {taken[place]} is written to this one"
        )
    taken[place] = given


def written(name: str, module: Format, path: Path) -> str:
    """A line about a report that was written. A target other than a file may be secret."""
    if metavar(module) == FILE:
        return f"{name} report {path}"
    return f"{name} report {getattr(module, 'written', lambda: 'passed on')()}"
