"""The report formats by name, for ``[reports]`` and ``refusal-checks report``.

An extension's module is a report format if it defines ``write(run, target)``. It may also define

- ``USUAL_FILE``: a file is the target, and the command writes this one where ``--out`` names none.
  Without it the target is a word as it was given, for example a project's name.
- ``check(target)``: raises UserError before an engine starts if the report could not be written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from refusal_checks.config.run_spec import RunSpec
from refusal_checks.config.tables import ReportsTable
from refusal_checks.core.errors import UserError, require_known
from refusal_checks.io import extensions
from refusal_checks.io.files import resolve_path
from refusal_checks.reports import junit, markdown
from refusal_checks.results.run_folder import RunFolder, require_writable


class Format(NamedTuple):
    """How a report is written; ``usual_file`` is empty if it is not a file."""

    write: Callable[[RunFolder, Path], None]
    usual_file: str = ""
    check: Callable[[Path], None] | None = None


def _write_page(run: RunFolder, path: Path) -> None:
    from refusal_checks.reports.page import page  # templates, which no other run needs

    page.write(run, path)


def _check_page(path: Path) -> None:
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"{path.name}: end the name in .html: the report is a web page, which a browser can "
            "print to PDF"
        )


OWN = {
    "html": Format(_write_page, "report.html", _check_page),
    "markdown": Format(markdown.write, "report.md"),
    "junit": Format(junit.write, "report.xml"),
}


def discover() -> Mapping[str, Format]:
    """All formats by name; ExtensionError if two have the same."""
    names, formats = extensions.UniqueNames("report formats"), dict(OWN)
    for name in OWN:
        names.add(name, extensions.OWN)
    for extension in extensions.load_all():
        if extension.has("write"):
            names.add(extension.name, extension.origin)
            found = vars(extension.module)
            formats[extension.name] = Format(
                found["write"], found.get("USUAL_FILE", ""), found.get("check")
            )
    return formats


def targets(reports: ReportsTable) -> Iterator[tuple[str, Format, Path]]:
    """Yield the formats that a spec requests, with names and targets."""
    for name, report in discover().items():
        target = Path(reports.target(name))
        if reports.target(name):
            yield name, report, Path.cwd() / target if report.usual_file else target


def github_summary() -> Iterator[tuple[str, Format, Path]]:
    """Yield the report for GitHub's step summary, if the run is in a GitHub workflow."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        yield "github", Format(markdown.append, "summary.md"), Path(summary)


def check(spec: RunSpec) -> None:
    """Raise UserError if a requested report could not be written."""
    for name in spec.reports.formats:
        require_known(name, discover(), "[reports]", "report", UserError)
    taken: dict[Path, str] = {}
    for name, report, path in targets(spec.reports):
        place = spec.where(f"reports.{name}")
        if report.usual_file:
            what = place
            if not place.startswith("--"):  # an option is shown with its value
                what = f"{place} {spec.reports.target(name)}"
            _require_file(what, path)
            # The later report would replace the earlier one without a word.
            other = taken.setdefault(resolve_path(path), place)
            if other != place:
                raise UserError(
                    f"{what}: choose another file: {other} writes to this one"
                )
        if report.check:
            report.check(path)


def _require_file(what: str, path: Path) -> None:
    """Refuse a path where no file can be written."""
    try:
        is_folder = path.is_dir()  # fails for a name that is too long
    except OSError as fault:
        raise UserError(f"{what}: name a file: {fault.strerror}") from None
    if is_folder:
        raise UserError(f"{what}: name a file: it is a folder")
    require_writable(path.parent, f"{what}:")


def report_line(name: str, report: Format, path: Path) -> str:
    """A line about a written report; it hides a target that is not a file, which may be secret."""
    return f"{name} report {path if report.usual_file else 'written'}"
