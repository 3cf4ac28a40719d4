"""Remarks on a run as terminal lines: a few of the most important, or all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refusal_checks.core.layout import columns, cut, padded, wrapped
from refusal_checks.core.text import clean, count
from refusal_checks.gates.sentences import sentence
from refusal_checks.metrics import main_metric
from refusal_checks.reports import remarks
from refusal_checks.reports.explain import select
from refusal_checks.reports.remarks import Example
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.summary import RunSummary

MOST = 5
"""Most lines of remarks unless all are requested."""

MOST_NAMED = 4
"""Most benchmarks of which a line tells what was refused in all answers."""


def brief_lines(run: RunSummary, width: int) -> Iterator[str]:
    """The most important remarks on the run, worst first."""
    always: list[list[str]] = []
    if_room: list[list[str]] = []
    for text, example in remarks.wrong(run):
        if_room.append(fitted(text, width))
        if example:
            if_room.append([_example_line(example, width)])
    for text in (*run.manifest.misnamed, *run.manifest.left_out):
        always.append(fitted(clean(text), width))
    for text in remarks.of_agreement(run):
        always.append(fitted(text, width))
    refused = remarks.refused_in_all(run, MOST_NAMED)
    if refused:
        always.append(fitted(refused, width))
    for text in (*remarks.weighty(run), *remarks.lighter(run)):
        if_room.append(fitted(text, width))

    for lines in always:
        yield from lines
    yield from _as_many_as_fit(if_room, width)


def _example_line(example: Example, width: int) -> str:
    start = f'  {clean(example.id, 40)} "'
    end = '"'
    if example.more:
        end = f'" and {count(example.more, "more prompt")}'
    room = max(20, width - len(start) - len(end))
    return cut(start + cut(clean(example.prompt), room) + end, width)


def _as_many_as_fit(texts: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Wrap the first of these texts, as many as fit into ``MOST`` terminal lines together."""
    room = MOST
    for number, lines in enumerate(texts):
        remaining = len(texts) - number
        height = sum(max(1, -(-columns(line) // width)) for line in lines)
        # The last line says how many more there are, unless this text is the last one.
        if height > (room if remaining == 1 else room - 1):
            yield f"-v shows {count(remaining, 'more remark')}"
            return
        room -= height
        yield from lines


def fitted(text: str, width: int) -> list[str]:
    """Wrap to width, but never break a path, so that it can be copied."""
    if any(columns(word) > width - 2 for word in text.split()):
        return [text]
    return wrapped(text, width)


def full_lines(summary: RunSummary) -> Iterator[str]:
    """All remarks on one run, in lines of any length."""
    verdicts = summary.verdicts
    for text in (*summary.manifest.misnamed, *summary.manifest.left_out):
        yield clean(text)
    for note in summary.notes:
        yield clean(f"note: {note}", 300)
    yield from remarks.of_agreement(summary)
    for text in remarks.of_labels(summary):
        yield clean(text, 300)
    yield from _baselines(summary)
    yield from remarks.unneeded_acceptances(summary)
    yield from remarks.unchecked_margins(summary)
    for gate_id, verdict in verdicts.items():
        details = select(verdict, "verbose")
        if details or not verdict.passed:
            yield f"{clean(gate_id)}: {sentence(verdict)}"
            for text in details:
                yield f"  {text}"
    refused = remarks.refused_in_all(summary)
    if refused:
        yield refused
    yield from remarks.of_benchmarks(summary)
    balance = summary.balance
    if balance:
        yield (
            f"under-refusal {balance.under_refusal:.1%} (safety) | "
            f"over-refusal {balance.over_refusal:.1%} (sanity)"
        )
    for name, benchmark in summary.benchmarks.items():
        yield from _groups(name, benchmark)


def _baselines(summary: RunSummary) -> Iterator[str]:
    """What each benchmark was compared with; equal lines once."""
    texts: dict[str, None] = {}
    for verdict in summary.verdicts.values():
        for text in select(verdict, "baseline"):
            texts[f"{verdict.gate.benchmark}: {text}"] = None
    yield from texts


def _groups(name: str, benchmark: BenchmarkSummary) -> Iterator[str]:
    """A benchmark's main figure by group, in columns."""
    metric = main_metric(benchmark.figures)
    if metric is None:
        return
    for kind, figures_by_group in benchmark.groups.items():
        yield f"{name} by {kind}: {metric.name}"
        for group, figures in figures_by_group.items():
            estimate = figures.get(metric.name)
            if estimate:
                label = padded(clean(group, 40), 40)
                value = metric.show(estimate.value)
                interval = metric.interval(estimate)
                yield f"  {label} {value:>6}  {interval}, n = {estimate.n}"
