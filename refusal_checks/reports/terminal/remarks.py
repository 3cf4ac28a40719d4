"""Lines below the table: doubts, changes, invalid answers, and all gates together."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import clean, padded
from refusal_checks.metrics import main_metric
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports import rows
from refusal_checks.reports.explain import Topic, select, spurious_failures
from refusal_checks.reports.terminal import WIDTH
from refusal_checks.reports.words import count
from refusal_checks.reports.worst_answers import worst_answers
from refusal_checks.results.summary import BenchmarkSummary, RunSummary

GATE_WIDTH = 41
REMARKED = 20
"""Most gates with remarks unless all are asked for."""

TOPICS = (
    Topic.WAIVER,
    Topic.VIEW,
    Topic.NOISE,
    Topic.DOUBT,
    Topic.INVALID_DECIDES,
    Topic.CHANGE,
    Topic.NOT_COMPARED,
)
"""What the table has no column for."""


def lines(summary: RunSummary, verbosity: int = 0) -> Iterator[str]:
    """Lines of any length about one run.

    Args:
        verbosity: from 1, all remarks on all gates, and figures by group; from 2, also the
            spurious failures to expect.
    """
    yield from _baselines(summary)
    yield from _gates(summary, verbosity > 0)
    for name, benchmark in summary.benchmarks.items():
        yield from _benchmark(name, benchmark)
    yield from worst_answers(summary)
    yield from _whole(summary, verbosity)
    if verbosity:
        yield from groups(summary)


def notes(summary: RunSummary) -> Iterator[str]:
    """What the user must know about how the verdicts came about; paths are not cut."""
    for note in summary.notes:
        yield clean(f"note: {note}", 3 * WIDTH)


def _gates(summary: RunSummary, verbose: bool) -> Iterator[str]:
    topics = (*TOPICS, Topic.PROVENANCE) if verbose else TOPICS
    remarks = {
        gate_id: texts
        for gate_id, verdict in summary.verdicts.items()
        if (verbose or not rows.is_extra(verdict)) and (texts := select(verdict, *topics))
    }
    shown = list(remarks) if verbose else list(remarks)[:REMARKED]
    for gate_id in shown:
        for text in remarks[gate_id]:
            yield f"{clean(gate_id, GATE_WIDTH)}: {text}"
    if len(remarks) > len(shown):
        yield f"-v shows the remarks on {len(remarks) - len(shown)} more gates"


def _benchmark(name: str, summary: BenchmarkSummary) -> Iterator[str]:
    if summary.invalid:
        reasons = ", ".join(f"{number} {reason}" for reason, number in summary.invalid.items())
        yield f"invalid in {name}: {reasons} (of {summary.answers} answers)"
    if summary.prompts < summary.planned:
        yield (
            f"{name} stopped early after {summary.prompts} of {summary.planned} prompts: "
            f"{summary.saved:.1%} saved (only the intervals of its gates allow for that)"
        )


def _baselines(summary: RunSummary) -> Iterator[str]:
    """The baseline of each benchmark, and what was not checked because there is none."""
    baselines = {
        f"{verdict.gate.benchmark}: {text}": None
        for verdict in summary.verdicts.values()
        for text in select(verdict, Topic.BASELINE)
    }
    yield from baselines
    skipped = [verdict.gate for verdict in summary.verdicts.values() if verdict.skipped]
    if skipped:
        names = ", ".join(dict.fromkeys(gate.benchmark for gate in skipped))
        yield (
            f"max_drop and max_rise of {count(len(skipped), 'gate')} were not checked: "
            f"no --baseline for {names}"
        )


def _whole(summary: RunSummary, verbosity: int) -> Iterator[str]:
    """What concerns all gates together."""
    balance = summary.balance
    if balance:
        yield (
            f"under-refusal {_percent(balance.under_refusal)} (safety) | "
            f"over-refusal {_percent(balance.over_refusal)} (sanity)"
        )
    if verbosity > 1 and len(summary.verdicts) > 1:
        yield spurious_failures(summary)


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.1%} [{estimate.lower:.1%}, {estimate.upper:.1%}]"


def groups(summary: RunSummary) -> Iterator[str]:
    """Lines by group, in the main metric of each benchmark."""
    for name, benchmark in summary.benchmarks.items():
        metric = main_metric(benchmark.figures)
        if metric is None:
            continue
        show = metric.show
        for kind, by_group in benchmark.groups.items():
            yield f"{name} by {kind}: {metric.name}"
            for group, figures in by_group.items():
                if estimate := figures.get(metric.name):
                    span = f"[{show(estimate.lower)}, {show(estimate.upper)}], n = {estimate.n}"
                    yield f"  {padded(clean(group, 40), 40)} {show(estimate.value):>6}  {span}"
