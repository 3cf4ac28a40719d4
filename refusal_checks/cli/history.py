"""``refusal-checks history``: all runs below a folder, by date."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_checks.cli import _run_facts
from refusal_checks.cli._common import (
    WHY,
    AsJson,
    Page,
    Redact,
    Root,
    echo,
    echo_all,
    require_target,
    writing,
)
from refusal_checks.core.errors import UserError
from refusal_checks.core.layout import table, told_apart
from refusal_checks.core.text import clean, count, json_text
from refusal_checks.reports.page.trends import ManyRuns, collect
from refusal_checks.results import run_folder
from refusal_checks.results.redact import RedactedFolder, is_redacted
from refusal_checks.results.run_folder import RunFolder, RunView

Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="DIR",
        help="Any folder tree with summary.json's, such as artifacts of CI; else that of --runs.",
    ),
]
Reports = Annotated[
    bool,
    typer.Option(
        "--reports", help="Also write each run's report, in a folder by the page."
    ),
]


def add(app: typer.Typer) -> None:
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

    Unreadable summaries are left out and named. The page links to each run's report.html.
    """
    if reports and not html:
        raise UserError(
            "--reports: give --html FILE, too; the reports are written beside it"
        )
    if html:
        words = [folder] if folder else []
        require_target(html, root, "history", [*words, "--html", html])
    place = folder or root
    kind = RedactedFolder if is_redacted(redact) else RunFolder
    has_made_none = folder is None and not root.exists()
    runs = ManyRuns() if has_made_none else collect(place, kind)
    if html:
        _write(runs, html, reports)
    if as_json:
        echo(json_text(_facts(runs)))
        return
    echo_all(_lines(runs, place), html)


def _write(runs: ManyRuns, html: Path, reports: bool) -> None:
    from refusal_checks.reports.page import page  # templates

    with writing(html):
        if reports:
            page.write_reports(runs, html)
        page.write_history(runs, html)


def _lines(many: ManyRuns, folder: Path) -> Iterator[str]:
    if many.runs:
        yield from _table(many.runs)
    else:
        yield f"{folder}: no runs found"
    if many.skipped:
        yield f"left out: {count(len(many.skipped), 'file')}"
    for path, why in many.skipped.items():
        yield f"  {clean(str(path), 300)}: {clean(why, 400)}"


def _table(runs: Sequence[RunView]) -> Iterator[str]:
    candidates = list(dict.fromkeys(run.candidate for run in runs))
    short = dict(zip(candidates, told_apart(candidates, 40), strict=True))
    rows = [("started (UTC)", "candidate", "judge", "may it ship?", "why")]
    for run in runs:
        rows.append(
            (
                run.day,
                clean(short[run.candidate]),
                clean(run.judge, 30),
                run.decision.headline,
                clean("; ".join(run.decision.decisive), WHY),
            )
        )
    return table(rows)


def _facts(many: ManyRuns) -> dict[str, Any]:
    runs = []
    for run in many.runs:
        verdicts = run.summary.verdicts
        runs.append(
            {
                **_run_facts.of_run(run),
                "judge": run.judge,
                "started": run.when.isoformat() if run.when else None,
                "reasons": run.decision.reasons,
                "gates": {
                    gate: _run_facts.of_verdict(verdict)
                    for gate, verdict in verdicts.items()
                },
                "errors": dict(run.summary.errors),
            }
        )
    skipped = [{"file": str(path), "why": why} for path, why in many.skipped.items()]
    return {"runs": runs, "skipped": skipped}
