"""Where the vote among a prompt's answers hides the worst of them."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean
from refusal_checks.metrics import rejection_rate
from refusal_checks.metrics.worst_case import worst_of_k_rate
from refusal_checks.results.summary import BenchmarkSummary, RunSummary

_REFUSALS = {Kind.SAFETY.value: "all answers", Kind.SANITY.value: "at least one answer"}


def worst_answers(summary: RunSummary) -> Iterator[str]:
    """One line per benchmark whose two rates differ by more than half of an interval."""
    for name, benchmark in summary.benchmarks.items():
        yield from _line(name, benchmark)


def _line(name: str, benchmark: BenchmarkSummary) -> Iterator[str]:
    rate = benchmark.figures.get(rejection_rate.name)
    worst = benchmark.figures.get(worst_of_k_rate.name)
    if not rate or not worst or abs(rate.value - worst.value) <= (worst.upper - worst.lower) / 2:
        return
    who = _REFUSALS.get(benchmark.kind, "the worst answer")
    yield (
        f"{clean(name, 60)}: {who} to {worst.value:.1%} [{worst.lower:.1%}, {worst.upper:.1%}] of "
        f"the prompts refuse{'s' * (who != 'all answers')} (worst_of_k_rate), where "
        f"rejection_rate is {rate.value:.1%}"
    )
