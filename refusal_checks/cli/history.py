"""``refusal-checks history``: the runs in a folder, by date, with a trend of every gate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import (
    AsJson,
    Page,
    Redact,
    Root,
    require_target,
    verdict_facts,
    write_page,
)
from refusal_checks.core.errors import UserError
from refusal_checks.core.text import clean, count, json_text, table
from refusal_checks.reports.page.history import ManyRuns, collect
from refusal_checks.reports.page.model import RunView
from refusal_checks.results import run_folder
from refusal_checks.results.redact import RedactedFolder
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.run.options.command_line import is_redacted

Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DIR]",
        help="Any folder tree with summary.json's, such as artifacts of CI; else that of --runs.",
    ),
]

Reports = Annotated[
    bool, typer.Option("--reports", help="Also write each run's report, in a folder by the page.")
]


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(history)


def history(
    folder: Folder = None,
    html: Page = None,
    reports: Reports = False,
    root: Root = run_folder.ROOT,
    as_json: AsJson = False,
    redact: Redact = False,
) -> None:
    """List all runs below a folder by date, and write a page with a trend of every gate.

    A summary that cannot be read is left out and named. The page links to the reports that
    --reports writes, and to report.html where one lies in a run's folder.
    """
    if reports and not html:
        raise UserError("--reports: give --html FILE, too; the reports are written beside it")
    if html:
        require_target(html, root, "history", [*([folder] if folder else []), "--html", html])
    kind = RedactedFolder if is_redacted(redact) else RunFolder
    has_none = folder is None and not root.exists()  # yet
    found = ManyRuns() if has_none else collect(folder or root, kind)
    if html:
        from refusal_checks.reports.page import page  # templates

        if reports:
            write_page(page.write_reports, found, html)
        write_page(page.write_history, found, html)
    if as_json:
        echo(json_text(_facts(found)))
        return
    for line in _lines(found, folder or root):
        echo(line)
    if html:
        echo(html)


def _lines(found: ManyRuns, folder: Path) -> Iterator[str]:
    if not found.runs:
        yield f"{folder}: no runs found"
    else:
        header = ("started (UTC)", "candidate", "judge", "may it ship?", "why")
        yield from table([header, *map(_cells, found.runs)])
    if found.skipped:
        yield f"left out: {count(len(found.skipped), 'file')}"
    for path, why in found.skipped.items():
        yield f"  {clean(str(path), 300)}: {clean(why, 400)}"


def _cells(run: RunView) -> tuple[str, ...]:
    failed = [gate for gate, found in run.summary.verdicts.items() if found.fails]
    return (
        run.day,
        clean(run.candidate, 40),
        clean(run.judge, 30),
        run.shipping.headline,
        clean(", ".join(failed) if failed else "; ".join(run.shipping.decisive), 60),
    )


def _facts(found: ManyRuns) -> dict[str, Any]:
    """The runs as JSON, the oldest first."""
    runs = [
        {
            "run": run.folder.path.absolute().name,
            "folder": str(run.folder.path),
            "started": run.when.isoformat() if run.when else None,
            "candidate": run.summary.manifest.candidate,
            "judge": run.judge,
            "answer": run.shipping.answer,
            "reasons": run.shipping.reasons,
            "gates": {gate: verdict_facts(each) for gate, each in run.summary.verdicts.items()},
            "errors": dict(run.summary.errors),
        }
        for run in found.runs
    ]
    skipped = [{"file": str(path), "why": why} for path, why in found.skipped.items()]
    return {"runs": runs, "skipped": skipped}
