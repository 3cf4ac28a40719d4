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
from refusal_checks.metrics import METRICS
from refusal_checks.reports import explain
from refusal_checks.reports.comparing import Cell, SideBySide, side_by_side
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
        from refusal_checks.reports.formats.html import compare_page  # templates

        write_page(compare_page.write, found, html)
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
    yield from table(
        [
            ("run", "candidate", "may it ship?", "judge", "started"),
            *(
                (
                    str(number),
                    column.name,
                    column.shipping.headline,
                    clean(column.run.summary.manifest.judge, 40),
                    clean(column.run.summary.manifest.started, 30),
                )
                for number, column in enumerate(found.columns, 1)
            ),
        ]
    )
    yield ""
    header = ["gate", *(f"run {number}" for number in range(1, len(found.columns) + 1))]
    rows = [[clean(line.gate, 60), *map(_words, line.cells)] for line in found.lines]
    yield from table([header, *rows])
    if not found.in_common:
        yield "no gate of run 1 is a gate of another run"
    yield from _apart(found)
    yield from _moved(found)


def _words(cell: Cell | None) -> str:
    """A cell of the table: outcome, figure, change since run 1 with its interval."""
    if cell is None:
        return "-"
    if cell.verdict is None:
        return "ERROR"
    gate = cell.verdict.gate
    shown = f"{explain.mark(cell.verdict)} {explain.figure(gate, cell.verdict.estimate.value)}"
    if cell.change is None:
        return shown
    change = cell.change
    span = METRICS[gate.metric].show_change(change.value, change.lower, change.upper)
    return f"{shown} ({span.removesuffix(' points')}{'' if cell.is_paired else ', unpaired'})"


def _apart(found: SideBySide) -> Iterator[str]:
    for number, column in enumerate(found.columns, 1):
        if column.apart:
            where = clean(", ".join(column.apart), 200)
            yield f"run {number} is not comparable with run 1 in {where}:"
            yield from (f"  {clean(difference)}" for difference in column.differences)


def _moved(found: SideBySide) -> Iterator[str]:
    for moves in found.moves:
        for moved in moves.moved:
            named = ", ".join(clean(flip.now.id, 30) for flip in moved.flips[:_IDS])
            more = ", ..." * (len(moved.flips) > _IDS)
            yield f"run {moves.number}, {clean(moves.gate, 60)}: {moved.how} ({named}{more})"


def _facts(found: SideBySide) -> dict[str, Any]:
    """The comparison as JSON, without texts."""
    columns = [
        {
            "run": column.run.folder.path.absolute().name,
            "folder": str(column.run.folder.path),
            "candidate": column.run.summary.manifest.candidate,
            "judge": column.run.summary.manifest.judge,
            "started": column.run.summary.manifest.started,
            "answer": column.shipping.answer,
            "not_comparable": {name: list(why) for name, why in column.apart.items()},
        }
        for column in found.columns
    ]
    gates = {line.gate: [cell and _fact(cell) for cell in line.cells] for line in found.lines}
    return {"runs": columns, "gates": gates}


def _fact(cell: Cell) -> dict[str, Any]:
    verdict, change = cell.verdict, cell.change
    if verdict is None:
        return {"error": cell.error}
    known = verdict_facts(verdict)
    if change:
        known |= {"change": change.value, "change_interval": [change.lower, change.upper]}
        known |= {"paired": cell.is_paired}
    if compared := verdict.comparison:
        known |= {"fell": compared.lost, "rose": compared.gained}
    return known
