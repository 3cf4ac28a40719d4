"""What stands below the table: briefly what matters most, or all there is to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refusal_checks.core.text import clean, columns, cut, padded, wrapped
from refusal_checks.gates import explain
from refusal_checks.metrics import main_metric
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports import attack_matrix
from refusal_checks.reports.brief import (
    Example,
    benchmark_lines,
    lighter,
    notes,
    skipped,
    weighty,
    wrong,
)
from refusal_checks.reports.explain import Topic, select, spurious_failures
from refusal_checks.reports.words import count
from refusal_checks.reports.worst_answers import worst_answers
from refusal_checks.results.summary import RunSummary

MOST = 5
"""Most lines of remarks unless all are asked for."""

DETAILS = (
    Topic.WAIVER,
    Topic.VIEW,
    Topic.NOISE,
    Topic.DOUBT,
    Topic.INVALID_DECIDES,
    Topic.CHANGE,
    Topic.CHANGE_BOUNDS,
    Topic.NOT_COMPARED,
    Topic.PROVENANCE,
)
"""What the table and a gate's sentence do not say."""


def brief(runs: Sequence[tuple[str, RunSummary]], width: int) -> Iterator[str]:
    """What matters most of the runs, the weightiest first, in few lines.

    Args:
        runs: each with the candidate's name, which is empty if there is only one.
        width: columns to fill.
    """
    told: list[list[str]] = []
    for name, run in runs:
        for text, example in wrong(run):
            told.append(fitted(name + text, width))
            told += [[name + _shown(example, width - len(name))]] if example else []
    told += [fitted(name + text, width) for name, run in runs for text in weighty(run)]
    told += [fitted(name + text, width) for name, run in runs for text in lighter(run)]
    taken = 0
    for number, lines in enumerate(told):
        rest = len(told) - number
        taken += sum(max(1, -(-columns(line) // width)) for line in lines)
        if taken > MOST - bool(rest - 1):
            yield f"-v shows {count(rest, 'more remark')}"
            return
        yield from lines


def fitted(text: str, width: int) -> list[str]:
    """The text in lines that fit; a path in it is never broken, so that it can be copied."""
    whole = any(columns(word) > width - 2 for word in text.split())
    return [text] if whole else wrapped(text, width)


def _shown(example: Example, width: int) -> str:
    """An example in one line."""
    start = f'  {clean(example.id, 40)} "'
    rest = f'" and {count(example.more, "more prompt")}' if example.more else '"'
    prompt = cut(clean(example.prompt), max(20, width - len(start) - len(rest)))
    return cut(start + prompt + rest, width)


def lines(summary: RunSummary, verbosity: int = 1) -> Iterator[str]:
    """All remarks on one run, in lines of any length.

    Args:
        verbosity: from 2, also the spurious failures to expect.
    """
    yield from notes(summary)
    yield from _baselines(summary)
    yield from _gates(summary)
    for name, benchmark in summary.benchmarks.items():
        yield from benchmark_lines(name, benchmark)
    yield from attack_matrix.lines(summary)
    yield from worst_answers(summary)
    yield from _whole(summary, verbosity)
    yield from groups(summary)


def _gates(summary: RunSummary) -> Iterator[str]:
    """All on each gate, under its sentence."""
    for gate_id, verdict in summary.verdicts.items():
        details = select(verdict, *DETAILS)
        if details or not verdict.passed:
            yield f"{clean(gate_id)}: {explain.sentence(verdict)}"
            yield from (f"  {text}" for text in details)


def _baselines(summary: RunSummary) -> Iterator[str]:
    """The baseline of each benchmark, and what was not checked because there is none."""
    yield from dict.fromkeys(
        f"{verdict.gate.benchmark}: {text}"
        for verdict in summary.verdicts.values()
        for text in select(verdict, Topic.BASELINE)
    )
    yield from skipped(summary)


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
