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
from refusal_checks.reports.trends import Entry, entries
from refusal_checks.results import run_folder
from refusal_checks.results.many_runs import ManyRuns, collect
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
        from refusal_checks.reports.formats.html import history_page  # templates

        if reports:
            write_page(history_page.write_reports, found, html)
        write_page(history_page.write, found, html)
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
        header = ("started (UTC)", "candidate", "judge", "may it ship?", "failed gates")
        yield from table([header, *map(_cells, entries(found.runs))])
    if found.skipped:
        yield f"left out: {count(len(found.skipped), 'file')}"
    for one in found.skipped:
        yield f"  {clean(str(one.path), 300)}: {clean(one.why, 400)}"


def _cells(entry: Entry) -> tuple[str, ...]:
    failed = _failed(entry)
    return (
        entry.day,
        clean(entry.candidate, 40),
        clean(entry.judge, 30),
        entry.shipping.headline,
        clean(", ".join(failed), 60) if failed else "none",
    )


def _failed(entry: Entry) -> list[str]:
    return [gate for gate, found in entry.run.summary.verdicts.items() if found.fails]


def _facts(found: ManyRuns) -> dict[str, Any]:
    """The runs as JSON, the oldest first."""
    return {
        "runs": [_fact(entry) for entry in entries(found.runs)],
        "skipped": [{"file": str(one.path), "why": one.why} for one in found.skipped],
    }


def _fact(entry: Entry) -> dict[str, Any]:
    verdicts = entry.run.summary.verdicts
    return {
        "run": entry.run.folder.path.absolute().name,
        "folder": str(entry.run.folder.path),
        "started": entry.when.isoformat() if entry.when else None,
        "candidate": entry.run.summary.manifest.candidate,
        "judge": entry.judge,
        "answer": entry.shipping.answer,
        "gates": {gate: verdict_facts(each) for gate, each in verdicts.items()},
        "errors": dict(entry.run.summary.errors),
    }
