"""``refusal-checks compare`` and ``history``: several runs, side by side or by date."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_checks.cli._common import (
    AsJson,
    Redact,
    Root,
    Runs,
    echo,
    open_run,
    require_target,
)
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.layout import table, told_apart
from refusal_checks.core.text import clean, count, json_text
from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports import changes, explain
from refusal_checks.reports.page.gate_rows import GateRow
from refusal_checks.reports.page.history import ManyRuns, collect
from refusal_checks.reports.page.several import SideBySide, side_by_side
from refusal_checks.reports.rows import candidate_names
from refusal_checks.results import run_folder
from refusal_checks.results.redact import RedactedFolder, is_redacted
from refusal_checks.results.run_folder import RunFolder, RunView

WHY = 120
"""Most characters of why a run may ship or not."""

_IDS = 5
"""Most prompts that a line of the terminal names."""

Page = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a page to this file."),
]
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
    app.command()(compare)
    app.command()(history)


def compare(
    runs: Runs,
    html: Page = None,
    root: Root = run_folder.ROOT,
    as_json: AsJson = False,
    redact: Redact = False,
) -> None:
    """Compare runs with the first one: gates, paired changes, and the prompts that moved.

    Runs with another judge, other data or other settings are shown apart, without changes.
    """
    if html:
        require_target(html, root, "compare", [*runs, "--html", html])
    found = side_by_side(_read([open_run(run, root, redact) for run in runs]))
    _write(found, html)
    _print(_side_by_side_facts(found) if as_json else _side_by_side_lines(found), html)


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
        raise UserError(
            "--reports: give --html FILE, too; the reports are written beside it"
        )
    if html:
        require_target(
            html, root, "history", [*([folder] if folder else []), "--html", html]
        )
    kind = RedactedFolder if is_redacted(redact) else RunFolder
    has_none = folder is None and not root.exists()  # yet
    found = ManyRuns() if has_none else collect(folder or root, kind)
    _write(found, html, reports)
    _print(
        _history_facts(found) if as_json else _history_lines(found, folder or root),
        html,
    )


def _write(
    found: SideBySide | ManyRuns, html: Path | None, reports: bool = False
) -> None:
    if html is None:
        return
    from refusal_checks.reports.page import page  # templates

    try:
        if isinstance(found, SideBySide):
            page.write_comparison(found, html)
            return
        if reports:
            page.write_reports(found, html)
        page.write_history(found, html)
    except OSError as fault:
        raise DataError(f"{html}: cannot be written: {fault.strerror}") from None


def _print(found: dict[str, Any] | Iterable[str], html: Path | None) -> None:
    if isinstance(found, dict):
        echo(json_text(found))
        return
    for line in found:
        echo(line)
    if html:
        echo(html)


def _read(folders: Sequence[RunFolder]) -> list[RunView]:
    """The runs; all are redacted if one is, since only then their prompts are known as the same."""
    runs = [RunView(folder, folder.summary()) for folder in folders]
    if not any(run.summary.manifest.redacted for run in runs):
        return runs
    hidden = [RedactedFolder(run.folder.path, run.folder.summary_name) for run in runs]
    return [RunView(folder, folder.summary()) for folder in hidden]


def _side_by_side_lines(found: SideBySide) -> Iterator[str]:
    names = candidate_names([run.summary for run in found.runs])
    heads = [
        (
            str(run.number + 1),
            name,
            run.decision.headline,
            clean(run.summary.manifest.judge, 40),
            run.day,
            clean("; ".join(run.decision.decisive), WHY),
        )
        for run, name in zip(found.runs, names, strict=True)
    ]
    yield from table(
        [("run", "candidate", "may it ship?", "judge", "started (UTC)", "why"), *heads]
    )
    yield ""
    header = ["gate", *(f"run {run.number + 1}" for run in found.runs)]
    rows = [
        [clean(gate, 60), *map(_words, cells)] for gate, cells in found.gates.items()
    ]
    yield from table([header, *rows])
    if not found.in_common:
        yield "no gate of run 1 is a gate of another run"
    for run, apart in zip(found.runs, found.apart, strict=True):
        if apart:
            where = clean(", ".join(apart), 200)
            yield f"run {run.number + 1} is not comparable with run 1 in {where}:"
            yield from (
                f"  {clean(difference)}" for difference in found.differences(run.number)
            )
    for row, moves in found.moves:
        for moved in moves:
            named = ", ".join(clean(flip.now.id, 30) for flip in moved.flips[:_IDS])
            more = ", ..." * (len(moved.flips) > _IDS)
            yield f"run {row.run.number + 1}, {clean(row.id, 60)}: {moved.how} ({named}{more})"
        if row.verdict and row.verdict.comparison:
            for text in changes.by_group(row.verdict.gate, row.verdict.comparison):
                yield f"run {row.run.number + 1}, {clean(row.id, 60)}: {text}"


def _words(row: GateRow | None) -> str:
    """A cell of the table: outcome, figure, change since run 1 with its interval."""
    if row is None:
        return "-"
    if row.verdict is None or row.metric is None:
        return "ERROR"
    shown = f"{row.mark} {row.figure}"
    if row.change is None:
        return shown
    span = row.metric.show_change(row.change.value, row.change.lower, row.change.upper)
    interval = span.removesuffix(" points")
    if not row.verdict.comparison:
        interval += ", unpaired"
    return f"{shown} ({interval})"


def _side_by_side_facts(found: SideBySide) -> dict[str, Any]:
    runs = [
        {
            **_run_facts(run),
            "judge": run.summary.manifest.judge,
            "started": run.summary.manifest.started,
            "not_comparable": {name: list(why) for name, why in apart.items()},
        }
        for run, apart in zip(found.runs, found.apart, strict=True)
    ]
    cells = found.gates.items()
    gates = {gate: [row and _gate_facts(row) for row in rows] for gate, rows in cells}
    return {"runs": runs, "gates": gates}


def _gate_facts(row: GateRow) -> dict[str, Any]:
    if row.verdict is None:
        return {"error": row.error}
    known = _verdict_facts(row.verdict)
    if change := row.change:
        known |= {
            "change": change.value,
            "change_interval": [change.lower, change.upper],
        }
        known |= {"paired": bool(row.verdict.comparison)}
    if compared := row.verdict.comparison:
        known |= {"fell": compared.lost, "rose": compared.gained}
        known["groups"] = [
            {
                "kind": each.kind,
                "group": each.group,
                "change": each.change.value,
                "change_interval": [each.change.lower, each.change.upper],
                "n": each.change.n,
            }
            for each in compared.groups
        ]
    return known


def _history_lines(found: ManyRuns, folder: Path) -> Iterator[str]:
    if not found.runs:
        yield f"{folder}: no runs found"
    else:
        header = ("started (UTC)", "candidate", "judge", "may it ship?", "why")
        candidates = dict.fromkeys(run.candidate for run in found.runs)
        short = dict(zip(candidates, told_apart([*candidates], 40), strict=True))
        yield from table(
            [header, *(_cells(run, short[run.candidate]) for run in found.runs)]
        )
    if found.skipped:
        yield f"left out: {count(len(found.skipped), 'file')}"
    for path, why in found.skipped.items():
        yield f"  {clean(str(path), 300)}: {clean(why, 400)}"


def _cells(run: RunView, candidate: str) -> tuple[str, ...]:
    return (
        run.day,
        clean(candidate),
        clean(run.judge, 30),
        run.decision.headline,
        clean("; ".join(run.decision.decisive), WHY),
    )


def _history_facts(found: ManyRuns) -> dict[str, Any]:
    runs = [
        {
            **_run_facts(run),
            "judge": run.judge,
            "started": run.when.isoformat() if run.when else None,
            "reasons": run.decision.reasons,
            "gates": {
                gate: _verdict_facts(each)
                for gate, each in run.summary.verdicts.items()
            },
            "errors": dict(run.summary.errors),
        }
        for run in found.runs
    ]
    skipped = [{"file": str(path), "why": why} for path, why in found.skipped.items()]
    return {"runs": runs, "skipped": skipped}


def _run_facts(run: RunView) -> dict[str, Any]:
    return {
        "run": run.folder.path.absolute().name,
        "folder": str(run.folder.path),
        "candidate": run.summary.manifest.candidate,
        "answer": run.decision.answer,
    }


def _verdict_facts(verdict: Verdict) -> dict[str, Any]:
    return {
        "outcome": explain.mark(verdict),
        "passed": verdict.passed,
        "figure": verdict.estimate.value,
        "interval": [verdict.estimate.lower, verdict.estimate.upper],
        "n": verdict.estimate.n,
    }
