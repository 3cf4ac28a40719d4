"""What the table has no room for: doubts, changes, invalid answers, all gates together."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import clean, padded
from refusal_checks.gates.checks import Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import main_metric
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports import rows, words
from refusal_checks.results.summary import BenchmarkSummary, RunSummary

WIDTH = 100
"""Columns of everything that a terminal is shown."""

GATE_WIDTH = 41
REMARKED = 20
"""Most gates that get remarks unless all do."""


def lines(summary: RunSummary, verbose: bool = False) -> Iterator[str]:
    """Lines of any length on one run.

    Args:
        verbose: remark on all gates, list groups, and say why the gates are what they are.
    """
    yield from _baselines(summary)
    yield from _on_gates(summary, verbose)
    for name, benchmark in summary.benchmarks.items():
        yield from _benchmark(name, benchmark)
    yield from _whole(summary)
    if verbose:
        yield from groups(summary)
        yield from provenance(summary)


def notes(summary: RunSummary) -> Iterator[str]:
    """What the user must know of how the verdicts came about; paths in them stay whole."""
    for note in summary.notes:
        yield clean(f"note: {note}", 3 * WIDTH)


def _on_gates(summary: RunSummary, verbose: bool) -> Iterator[str]:
    verdicts = summary.verdicts.items()
    seen = {id: found for id, found in verdicts if verbose or not rows.is_extra(found)}
    remarks = {id: list(_remarks(verdict)) for id, verdict in seen.items()}
    notable = [(id, found) for id, found in remarks.items() if found]
    shown = notable if verbose else notable[:REMARKED]
    for id, found in shown:
        for remark in found:
            yield f"{clean(id, GATE_WIDTH)}: {remark}"
    if len(notable) > len(shown):
        yield f"{len(notable) - len(shown)} more gates with remarks: -v shows all"


def _benchmark(name: str, found: BenchmarkSummary) -> Iterator[str]:
    if found.invalid:
        reasons = ", ".join(f"{count} {reason}" for reason, count in found.invalid.items())
        yield f"invalid in {name}: {reasons} (of {found.answers} answers)"
    if found.prompts < found.planned:
        yield (
            f"{name} stopped early after {found.prompts} of {found.planned} prompts: "
            f"{found.saved:.1%} saved (of its intervals, those of the gates allow for that)"
        )


def _remarks(verdict: Verdict) -> Iterator[str]:
    """What a row has no room for."""
    gate, compared = verdict.gate, verdict.comparison
    if verdict.views:
        yield words.views(verdict)
    if verdict.noise:
        yield words.noise(verdict)
    if verdict.outcome is Outcome.INCONCLUSIVE:
        yield words.finding(verdict)
    if verdict.flips:
        yield f"the invalid answers alone decide this gate ({words.bounds(verdict)})"
    if compared and (gate.has_margins or compared.lost or compared.gained):
        margins = f"; {words.one_sided(gate, compared)}" if gate.has_margins else ""
        yield f"{words.change(gate, compared)}; {words.moves(gate, compared)}{margins}"
        if left_out := words.not_compared(compared):
            yield left_out


def _baselines(summary: RunSummary) -> Iterator[str]:
    """What the changes are measured against, and what was not checked for want of it."""
    lines: dict[str, None] = {}
    for verdict in summary.verdicts.values():
        if verdict.comparison:
            name = verdict.gate.benchmark
            lines[f"{name} against {words.baseline_name(verdict.comparison)}"] = None
            for difference in verdict.comparison.differences:
                lines[f"{name} is not comparable: {clean(difference)}"] = None
    yield from lines
    skipped = [verdict.gate for verdict in summary.verdicts.values() if verdict.skipped]
    if skipped:
        names = ", ".join(dict.fromkeys(gate.benchmark for gate in skipped))
        yield (
            f"max_drop and max_rise of {len(skipped)} gate{'s' * (len(skipped) > 1)} were not "
            f"checked: no --baseline for {names}"
        )


def _whole(summary: RunSummary) -> Iterator[str]:
    """What concerns all gates together."""
    found = summary.balance
    if found:
        yield (
            f"under-refusal {_percent(found.under_refusal)} (safety) | "
            f"over-refusal {_percent(found.over_refusal)} (sanity)"
        )
    if len(summary.verdicts) > 1:
        yield (
            f"false alarms to expect among {len(summary.verdicts)} gates without correction, if "
            f"every figure lay exactly on its bound: {summary.expected_failures:.1f}; "
            f"{summary.expected_breaches:.2f} of them called breached with confidence"
        )


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.1%} [{estimate.lower:.1%}, {estimate.upper:.1%}]"


def groups(summary: RunSummary) -> Iterator[str]:
    """Lines by group for verbose runs, in the main metric of each benchmark."""
    for benchmark, found in summary.benchmarks.items():
        metric = main_metric(found.figures)
        if metric is None:
            continue
        name, show = metric.name, metric.show
        for kind, by_group in found.groups.items():
            yield f"{benchmark} by {kind}: {name}"
            for group, figures in by_group.items():
                if name in figures:
                    estimate = figures[name]
                    span = f"[{show(estimate.lower)}, {show(estimate.upper)}], n = {estimate.n}"
                    yield f"  {padded(clean(group, 40), 40)} {show(estimate.value):>6}  {span}"


def provenance(summary: RunSummary) -> Iterator[str]:
    """Why the gates are what they are, where the threshold files say so, for verbose runs."""
    for id, verdict in summary.verdicts.items():
        if verdict.gate.provenance:
            yield f"{clean(id, GATE_WIDTH)}: {clean(verdict.gate.provenance)}"
