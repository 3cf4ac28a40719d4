"""``refusal-checks compare``: the figures of several runs in one table."""

from collections.abc import Iterator, Sequence
from functools import cache

import typer

from refusal_checks.api.result import RunResult
from refusal_checks.cli._common import Root, Runs, echo, read_run
from refusal_checks.core.errors import UserError
from refusal_checks.core.layout import shorten_names, table
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.text import sanitize
from refusal_checks.gates import score_files
from refusal_checks.gates.comparison import paired_change
from refusal_checks.io.files import resolve_path
from refusal_checks.metrics import METRICS
from refusal_checks.results.run_folder import read_earlier_scores
from refusal_checks.wording.gate_sentences import mark


def add(app: typer.Typer) -> None:
    app.command()(compare)


def compare(runs: Runs, root: Root) -> None:
    """Print one table: each gate's outcome, figure and interval in each run.

    For two runs, it also has the change with its interval, over the prompts that both scored.
    """
    results = [read_run(name, root) for name in runs]
    if len({resolve_path(run.folder) for run in results}) < max(2, len(results)):
        raise UserError("compare: name at least two different runs")
    for line in _lines(results):
        echo(line)


def _lines(runs: Sequence[RunResult]) -> Iterator[str]:
    gates: dict[str, None] = {}
    for run in runs:
        gates |= dict.fromkeys((*run.verdicts, *run.errors))
    rows = [
        ["gate", *_names(runs)],
        ["may it ship?", *(run.decision.headline for run in runs)],
    ]
    rows += [
        [sanitize(gate, 60), *(_cell(run, gate) for run in runs)] for gate in gates
    ]
    reasons: list[str] = []
    if len(runs) == 2:
        changes, reasons = _changes(*runs)
        rows[0].append("change")
        for row, gate in zip(rows[2:], gates, strict=True):
            row.append(changes.get(gate, ""))
    yield from table(rows)
    if not any(all(gate in run.verdicts for run in runs) for gate in gates):
        yield "compare runs of the same benchmarks: these have no gate in common"
    for why in reasons:
        yield sanitize(f"no change {why}", 600)


def _names(runs: Sequence[RunResult]) -> list[str]:
    """Short names of the candidates; run ids where these are the same."""
    ends = [run.candidate.rstrip("/").rpartition("/")[2] for run in runs]
    names = shorten_names([sanitize(end) for end in ends], 20)
    if len(set(names)) < len(names):
        return [sanitize(run.folder.name, 60) for run in runs]
    return names


def _cell(run: RunResult, gate_id: str) -> str:
    verdict = run.verdicts.get(gate_id)
    if verdict is None:
        return "ERROR" if gate_id in run.errors else "-"
    gate, estimate = verdict.gate, verdict.estimate
    return f"{mark(verdict)} {gate.show(estimate.value)} {gate.interval(estimate)}"


def _changes(before: RunResult, after: RunResult) -> tuple[dict[str, str], list[str]]:
    """The changes of the gates that both runs decided, and why others have none."""
    try:
        old, new = (read_earlier_scores(run.folder) for run in (before, after))
    except UserError as fault:
        why = str(fault).partition(";")[0]
        return {}, [f"without the scores of both runs: {why}"]
    changes: dict[str, str] = {}
    reasons: dict[str, None] = {}  # several gates of a benchmark have the same
    for gate_id, verdict in after.verdicts.items():
        gate = verdict.gate
        then, now = old.get(gate.benchmark), new.get(gate.benchmark)
        if gate_id not in before.verdicts or not then or not now:
            continue
        # Its figure is the worst group's, which may be another group in each run.
        if gate.is_on_every_group:
            continue
        apart = score_files.differences(then.conditions, now.conditions)
        if apart:
            reasons[f"in {gate.benchmark}: {'; '.join(apart)}"] = None
            continue
        prompts = [*filter(gate.looks_at, _prompts(after, gate.benchmark))]
        metric = METRICS[gate.metric]
        change = paired_change(metric, then, now, prompts, verdict.level)
        if change is None:
            reasons[f"in {gate_id}: no prompt has a score in both runs"] = None
            continue
        changes[gate_id] = metric.show_change(change.value, change.lower, change.upper)
    return changes, list(reasons)


@cache  # a benchmark's gates share its prompts, and its records may be large
def _prompts(run: RunResult, benchmark: str) -> list[Prompt]:
    prompts = {record.prompt.id: record.prompt for record in run.records(benchmark)}
    return list(prompts.values())
