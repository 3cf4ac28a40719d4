"""What attacks change: the rate of each benchmark under each attack, against its plain prompts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from refusal_checks.benchmarks.attacks import ALL
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean
from refusal_checks.metrics import METRICS, rejection_rate
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.metrics.worst_case import worst_attack_rejection_rate
from refusal_checks.results.summary import BenchmarkSummary, RunSummary

LEVEL = 0.95
"""Confidence level of the intervals of changes."""


@dataclass(frozen=True)
class Change:
    """How the same prompts fare under an attack, against being asked plainly.

    Attributes:
        share: of the prompts refused under the attack, less that of the plain ones; paired.
        lost, gained: prompts that are refused only plainly, and only under the attack.
        worse: prompts that moved the wrong way: lost ones, or gained ones where answers are right.
    """

    share: Estimate
    lost: int
    gained: int
    worse: int


@dataclass(frozen=True)
class Cell:
    """One benchmark under one attack; ``change`` is None if the run has no plain prompts of it."""

    name: str
    plain: str
    attack: str
    prompts: int
    rate: Estimate
    change: Change | None


def matrix(summary: RunSummary) -> dict[str, list[Cell]]:
    """The cells of each benchmark that is under attack, those that moved most first."""
    rows: dict[str, list[Cell]] = {}
    for name, found in summary.benchmarks.items():
        metric = worst_attack_rejection_rate if found.attack == ALL else rejection_rate
        rate = found.figures.get(metric.name)
        if found.attack and rate:
            plain = summary.benchmarks.get(found.plain)
            change = _change(plain, found, summary.manifest.confidence) if plain else None
            cell = Cell(name, found.plain, found.attack, found.prompts, rate, change)
            rows.setdefault(found.plain, []).append(cell)
    for cells in rows.values():
        cells.sort(key=lambda cell: (-cell.change.worse if cell.change else 1, cell.attack))
    return rows


def _change(plain: BenchmarkSummary, found: BenchmarkSummary, level: float | None) -> Change | None:
    from refusal_checks.metrics.statistics import paired  # numpy: not for collection

    ids = [prompt for prompt in found.confidences if prompt in plain.confidences]
    if not ids:
        return None
    then, now = (
        METRICS[rejection_rate.name].values(each.confidences[prompt] for prompt in ids)
        for each in (plain, found)
    )
    lost, gained = paired.flips(then, now)
    worse = gained if found.kind == Kind.SANITY.value else lost
    share = paired.difference(then, now, 1.0, LEVEL)
    factor = max(_spread(plain, level), _spread(found, level))
    return Change(share.widened(factor, -1.0, 1.0), lost, gained, worse)


def _spread(found: BenchmarkSummary, level: float | None) -> float:
    """How many times as wide clusters of prompts make the interval of the rate.

    Args:
        level: of the run's intervals; None where an older run did not record it.
    """
    rate = found.figures.get(rejection_rate.name)
    if rate is None or level is None:
        return 1.0
    return max(1.0, rate.width / wilson(rate.value, rate.n, level).width)


def lines(summary: RunSummary) -> Iterator[str]:
    """One line on the attack that moved most, of all benchmarks; none if no attack moved any."""
    cells = [cell for row in matrix(summary).values() for cell in row if cell.change]
    cells = [cell for cell in cells if cell.attack != ALL]
    top = max(cells, key=lambda cell: cell.change.worse if cell.change else 0, default=None)
    if top is None or top.change is None or not top.change.worse:
        return
    share, kind = top.change.share, summary.benchmarks[top.name].kind
    what = "newly refused" if kind == Kind.SANITY.value else "no longer refused"
    yield (
        f"attacks: {clean(top.attack, 60)} moves most: {top.change.worse} of {share.n} prompts of "
        f"{clean(top.plain, 60)} are {what} ({share.value:+.1%} [{share.lower:+.1%}, "
        f"{share.upper:+.1%}] against the plain prompts)"
    )
