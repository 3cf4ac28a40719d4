"""``refusal-checks report``: files about finished runs, and charts of their scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli import _charts
from refusal_checks.cli._common import (
    Redact,
    Root,
    Runs,
    echo,
    open_run,
    require_target,
)
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, UserError, require_known
from refusal_checks.core.extensions import ExtensionError
from refusal_checks.reports import formats
from refusal_checks.reports.formats import Format
from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import RunFolder, RunView

RADAR = "radar"
HISTOGRAM = "histogram"
CONSISTENCY = "consistency"
OF_SCORES = (RADAR, HISTOGRAM, CONSISTENCY)
"""Charts, which only this command draws; a gate run writes the other kinds, too."""

FILES = {
    "html": "report.html",
    "junit-prompts": "junit-prompts.xml",
    "pr-comment": "pr-comment.md",
    RADAR: "radar.svg",
    HISTOGRAM: "histogram.svg",
}
"""The file of each kind if ``--out`` names none; the formats of extensions need ``--out``."""


def add(app: typer.Typer) -> None:
    app.command()(report)


def kinds() -> list[str]:
    """What ``report`` writes; a shell completes these words."""
    return [*_formats_by_kind(), *OF_SCORES]


def report(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="What to write: html, junit-prompts, pr-comment, radar, histogram or consistency.",
            autocompletion=kinds,
        ),
    ],
    runs: Runs,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File to write; default: a name by KIND, such as report.html.",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="radar: also a model of the paper, such as GPT4 (repeatable).",
        ),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"radar, histogram: the benchmark; default: {_charts.CFSAFETY}.",
        ),
    ] = None,
    root: Root = run_folder.ROOT,
    redact: Redact = False,
) -> None:
    """Write a report of finished runs, or a chart of their scores.

    KIND is one of these, or a report format that an extension adds:

    - html: the page with the answer, the gates, charts, prompts and answers
    - junit-prompts: JUnit XML with one case per prompt, for browsing; no gates
    - pr-comment: a Markdown comment for a pull request, without texts
    - radar: a chart of mean safety scores by category, one line for each run
    - histogram: a chart of one run's safety scores by category, or of its refusal confidences
    - consistency: a printed table: how far judges agree on CFSafety, and each across languages

    The judges of consistency are those of one run, or of runs with the same answers: the same
    candidate, sampling and store, so that only the first run generates.
    """
    formats_by_kind = _formats_by_kind()
    known = [*formats_by_kind, *OF_SCORES]
    require_known(kind, known, "report", "kind", UserError)
    if out is not None:
        _require_kind(kind, "--out", [one for one in known if one != CONSISTENCY])
    if against:
        _require_kind(kind, "--against", [RADAR])
    if benchmark is not None:
        _require_kind(kind, "--benchmark", [RADAR, HISTOGRAM])
    if kind == HISTOGRAM and len(runs) > 1:
        raise UserError(f"report histogram: name one run: {len(runs)} are named")

    folders = [open_run(name, root, redact) for name in runs]
    if kind == CONSISTENCY:
        for line in _charts.consistency(_views(folders)):
            echo(line)
        return
    target = Path(out or _usual_file(kind, formats_by_kind))
    require_target(target, root, "report", [kind, *runs, "--out", "FILE"])
    if kind in formats_by_kind:
        _write(formats_by_kind[kind], folders, target)
    elif kind == RADAR:
        _charts.write_radar(
            _views(folders), against or [], benchmark or _charts.CFSAFETY, target
        )
    else:
        lines = _charts.write_histogram(
            _views(folders)[0], benchmark or _charts.CFSAFETY, target
        )
        for line in lines:
            echo(line)
    echo(target)


def _formats_by_kind() -> dict[str, Format]:
    """The report formats that have an option, by the option's name."""
    found = {}
    for module in formats.discover().values():
        kind = module.OPTION.lstrip("-")
        if kind in OF_SCORES:
            origin = extensions.origin(getattr(module, "__name__", kind))
            raise ExtensionError(
                f"extension {origin}: rename its option {module.OPTION}: `refusal-checks report "
                f"{kind}` is something else"
            )
        if kind:
            found[kind] = module
    return found


def _require_kind(kind: str, option: str, takes_it: Sequence[str]) -> None:
    """Refuse an option that means nothing for this kind of report."""
    if kind not in takes_it:
        raise UserError(
            f"report {kind}: leave out {option}, which is for these kinds only: "
            f"{', '.join(takes_it)}"
        )


def _usual_file(kind: str, formats_by_kind: Mapping[str, Format]) -> str:
    if kind not in FILES:
        takes = formats.metavar(formats_by_kind[kind])
        raise UserError(
            f"report {kind}: give --out {takes} to {formats_by_kind[kind].HELP}"
        )
    return FILES[kind]


def _views(folders: Sequence[RunFolder]) -> list[RunView]:
    return [RunView(folder, folder.summary()) for folder in folders]


def _write(module: Format, folders: Sequence[RunFolder], target: Path) -> None:
    try:
        module.write(folders, target)
    except OSError as fault:
        raise DataError(
            f"{target}: cannot be written: {fault.strerror or fault}"
        ) from None
