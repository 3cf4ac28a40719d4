"""``refusal-checks compare``: several runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import (
    AsJson,
    Page,
    Redact,
    Root,
    Runs,
    require_target,
    verdict_facts,
    write_page,
)
from refusal_checks.core.text import clean, json_text, table
from refusal_checks.reports.page.compare import SideBySide, side_by_side
from refusal_checks.reports.page.model import GateRow
from refusal_checks.reports.rows import candidate_names
from refusal_checks.results import run_folder
from refusal_checks.results.redact import RedactedFolder
from refusal_checks.results.run_folder import PastRun, RunFolder
from refusal_checks.run.options.command_line import is_redacted

_IDS = 5
"""Most prompts that a line of the terminal names."""


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


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
    folders = [run_folder.find(run, root) for run in runs]
    found = side_by_side(_read(folders, is_redacted(redact)))
    if html:
        from refusal_checks.reports.page.page import write_comparison  # templates

        write_page(write_comparison, found, html)
    if as_json:
        echo(json_text(_facts(found)))
        return
    for line in _lines(found):
        echo(line)
    if html:
        echo(html)


def _read(folders: Sequence[RunFolder], redact: bool) -> list[PastRun]:
    """The runs; all are redacted if one is, since only then their prompts are known as the same."""
    runs = [PastRun(folder, folder.summary()) for folder in folders]
    if not redact and not any(run.summary.manifest.redacted for run in runs):
        return runs
    hidden = [RedactedFolder(run.folder.path, run.folder.summary_name) for run in runs]
    return [PastRun(folder, folder.summary()) for folder in hidden]


def _lines(found: SideBySide) -> Iterator[str]:
    names = candidate_names([run.summary for run in found.runs])
    heads = [
        (
            str(run.number + 1),
            name,
            run.shipping.headline,
            clean(run.summary.manifest.judge, 40),
            clean(run.summary.manifest.started, 30),
        )
        for run, name in zip(found.runs, names, strict=True)
    ]
    yield from table([("run", "candidate", "may it ship?", "judge", "started"), *heads])
    yield ""
    header = ["gate", *(f"run {run.number + 1}" for run in found.runs)]
    rows = [[clean(gate, 60), *map(_words, cells)] for gate, cells in found.gates.items()]
    yield from table([header, *rows])
    if not found.in_common:
        yield "no gate of run 1 is a gate of another run"
    for run, apart in zip(found.runs, found.apart, strict=True):
        if apart:
            where = clean(", ".join(apart), 200)
            yield f"run {run.number + 1} is not comparable with run 1 in {where}:"
            yield from (f"  {clean(difference)}" for difference in found.differences(run.number))
    for row, moves in found.moves:
        for moved in moves:
            named = ", ".join(clean(flip.now.id, 30) for flip in moved.flips[:_IDS])
            more = ", ..." * (len(moved.flips) > _IDS)
            yield f"run {row.run.number + 1}, {clean(row.id, 60)}: {moved.how} ({named}{more})"


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
    return f"{shown} ({span.removesuffix(' points')}{'' if row.is_paired else ', unpaired'})"


def _facts(found: SideBySide) -> dict[str, Any]:
    """The comparison as JSON, without texts."""
    runs = [
        {
            "run": run.folder.path.absolute().name,
            "folder": str(run.folder.path),
            "candidate": run.summary.manifest.candidate,
            "judge": run.summary.manifest.judge,
            "started": run.summary.manifest.started,
            "answer": run.shipping.answer,
            "not_comparable": {name: list(why) for name, why in apart.items()},
        }
        for run, apart in zip(found.runs, found.apart, strict=True)
    ]
    gates = {gate: [row and _fact(row) for row in cells] for gate, cells in found.gates.items()}
    return {"runs": runs, "gates": gates}


def _fact(row: GateRow) -> dict[str, Any]:
    if row.verdict is None:
        return {"error": row.error}
    known = verdict_facts(row.verdict)
    if change := row.change:
        known |= {"change": change.value, "change_interval": [change.lower, change.upper]}
        known |= {"paired": row.is_paired}
    if compared := row.verdict.comparison:
        known |= {"fell": compared.lost, "rose": compared.gained}
    return known
