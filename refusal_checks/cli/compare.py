"""``refusal-checks compare``: several runs side by side, each against the first."""

from collections.abc import Iterator, Sequence
from typing import Any

import typer

from refusal_checks.cli import _run_facts
from refusal_checks.cli._common import (
    WHY,
    AsJson,
    Page,
    Redact,
    Root,
    Runs,
    echo,
    echo_all,
    open_run,
    require_target,
    writing,
)
from refusal_checks.core.layout import table
from refusal_checks.core.text import clean, json_text
from refusal_checks.reports import changes
from refusal_checks.reports.page.gate_rows import GateRow
from refusal_checks.reports.page.several import SideBySide, side_by_side
from refusal_checks.reports.rows import candidate_names
from refusal_checks.results import run_folder
from refusal_checks.results.redact import RedactedFolder
from refusal_checks.results.run_folder import RunFolder, RunView

PROMPTS = 5
"""The most prompts that one line on the terminal names."""


def add(app: typer.Typer) -> None:
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
    comparison = side_by_side(_read([open_run(run, root, redact) for run in runs]))
    if html:
        from refusal_checks.reports.page import page  # templates

        with writing(html):
            page.write_comparison(comparison, html)
    if as_json:
        echo(json_text(_facts(comparison)))
        return
    echo_all(_lines(comparison), html)


def _read(folders: Sequence[RunFolder]) -> list[RunView]:
    """Read the runs. If one is redacted, redact all: else their prompts could not be matched."""
    runs = [RunView(folder, folder.summary()) for folder in folders]
    if not any(run.summary.manifest.redacted for run in runs):
        return runs
    redacted = [RedactedFolder(folder.path, folder.summary_name) for folder in folders]
    return [RunView(folder, folder.summary()) for folder in redacted]


def _lines(comparison: SideBySide) -> Iterator[str]:
    yield from _runs_table(comparison.runs)
    yield ""
    yield from _gates_table(comparison)
    if not comparison.in_common:
        yield "no gate of run 1 is a gate of another run"
    for run, apart in zip(comparison.runs, comparison.apart, strict=True):
        if apart:
            where = clean(", ".join(apart), 200)
            yield f"run {run.number + 1} is not comparable with run 1 in {where}:"
            for difference in comparison.differences(run.number):
                yield f"  {clean(difference)}"
    yield from _moves(comparison)


def _runs_table(runs: Sequence[RunView]) -> Iterator[str]:
    rows = [("run", "candidate", "may it ship?", "judge", "started (UTC)", "why")]
    names = candidate_names([run.summary for run in runs])
    for run, name in zip(runs, names, strict=True):
        rows.append(
            (
                str(run.number + 1),
                name,
                run.decision.headline,
                clean(run.summary.manifest.judge, 40),
                run.day,
                clean("; ".join(run.decision.decisive), WHY),
            )
        )
    return table(rows)


def _gates_table(comparison: SideBySide) -> Iterator[str]:
    rows = [["gate", *(f"run {run.number + 1}" for run in comparison.runs)]]
    for gate, cells in comparison.gates.items():
        rows.append([clean(gate, 60), *map(_cell, cells)])
    return table(rows)


def _cell(row: GateRow | None) -> str:
    """Outcome, figure, and the change since run 1, with its interval."""
    if row is None:
        return "-"
    if row.verdict is None or row.metric is None:
        return "ERROR"
    shown = f"{row.mark} {row.figure}"
    if row.change is None:
        return shown
    change = row.metric.show_change(
        row.change.value, row.change.lower, row.change.upper
    ).removesuffix(" points")
    if not row.verdict.comparison:
        change += ", unpaired"
    return f"{shown} ({change})"


def _moves(comparison: SideBySide) -> Iterator[str]:
    """The prompts that moved, and the groups that changed."""
    for row, moves in comparison.moves:
        gate = f"run {row.run.number + 1}, {clean(row.id, 60)}"
        for moved in moves:
            ids = [clean(flip.now.id, 30) for flip in moved.flips[:PROMPTS]]
            if len(moved.flips) > PROMPTS:
                ids.append("...")
            yield f"{gate}: {moved.how} ({', '.join(ids)})"
        if row.verdict and row.verdict.comparison:
            for text in changes.by_group(row.verdict.gate, row.verdict.comparison):
                yield f"{gate}: {text}"


def _facts(comparison: SideBySide) -> dict[str, Any]:
    runs = []
    for run, apart in zip(comparison.runs, comparison.apart, strict=True):
        manifest = run.summary.manifest
        runs.append(
            {
                **_run_facts.of_run(run),
                "judge": manifest.judge,
                "started": manifest.started,
                "not_comparable": {name: list(why) for name, why in apart.items()},
            }
        )
    gates = {}
    for gate, rows in comparison.gates.items():
        gates[gate] = [_gate_facts(row) if row else None for row in rows]
    return {"runs": runs, "gates": gates}


def _gate_facts(row: GateRow) -> dict[str, Any]:
    if row.verdict is None:
        return {"error": row.error}
    facts = _run_facts.of_verdict(row.verdict)
    compared = row.verdict.comparison
    if row.change:
        facts["change"] = row.change.value
        facts["change_interval"] = [row.change.lower, row.change.upper]
        facts["paired"] = bool(compared)
    if compared:
        facts["fell"] = compared.lost
        facts["rose"] = compared.gained
        facts["groups"] = [
            {
                "kind": group.kind,
                "group": group.group,
                "change": group.change.value,
                "change_interval": [group.change.lower, group.change.upper],
                "n": group.change.n,
            }
            for group in compared.groups
        ]
    return facts
