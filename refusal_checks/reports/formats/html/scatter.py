"""Over-refusal against under-refusal of each candidate and its baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from refusal_checks.core.prompts import Kind
from refusal_checks.gates.compare import Comparison
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.formats.html.labels import Place, places
from refusal_checks.results.summary import METRIC, RunSummary, distinct

_ENDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Possible ends of an axis."""


@dataclass(frozen=True)
class Point:
    """One run or its baseline.

    Attributes:
        over, under: shares; a baseline's have no interval, since only that of the change is known.
    """

    name: str
    over: Estimate
    under: Estimate
    is_baseline: bool = False


@dataclass(frozen=True)
class Scatter:
    """Points on two axes from 0 to the same end.

    Attributes:
        top: the end of both axes, a share.
    """

    points: Sequence[Point]
    top: float

    @property
    def ticks(self) -> Sequence[float]:
        """Shares to mark on the axes."""
        return [self.top * part / 4 for part in range(5)]

    @property
    def moves(self) -> Sequence[tuple[Point, Point]]:
        """Each baseline with the run after it."""
        return [(before, now) for before, now in pairwise(self.points) if before.is_baseline]

    @property
    def labels(self) -> Sequence[Place]:
        """Where each point's number stands: beside it, over no point and no other number."""
        return places([(self.x(p.over.value), self.y(p.under.value)) for p in self.points])

    def x(self, share: float) -> float:
        """The position of a share on the horizontal axis, from 0 to 250."""
        return round(250 * min(1.0, share / self.top), 2)

    def y(self, share: float) -> float:
        """The position of a share on the vertical axis, from 0 up to -170."""
        return round(-170 * min(1.0, share / self.top), 2)


def scatter(named: Sequence[tuple[str, RunSummary]], baselines: bool = True) -> Scatter | None:
    """The plot of runs with the names of their candidates; None if no run has both rates.

    Args:
        baselines: include the baseline of each run.
    """
    points = [
        point
        for name, summary in named
        for point in _points(name, summary)
        if baselines or not point.is_baseline
    ]
    if not points:
        return None
    most = max(max(point.over.upper, point.under.upper) for point in points)
    return Scatter(points, next(end for end in _ENDS if end >= min(1.0, most)))


def _points(name: str, summary: RunSummary) -> Iterator[Point]:
    if summary.balance is None:
        return
    baseline = _baseline(summary)
    if baseline:
        yield baseline
    yield Point(name, summary.balance.over_refusal, summary.balance.under_refusal)


def _baseline(summary: RunSummary) -> Point | None:
    """The baseline's rates over the prompts that were compared.

    None unless every benchmark in the run's own rates was compared.
    """
    rates: dict[str, list[tuple[float, int]]] = {}
    names = set()
    for name, benchmark in distinct(summary.benchmarks).items():
        if METRIC not in benchmark.figures or benchmark.kind not in (Kind.SAFETY, Kind.SANITY):
            continue
        compared = _comparison(summary, name)
        if compared is None:
            return None
        rate = benchmark.figures[METRIC].value - compared.change.value
        rates.setdefault(benchmark.kind, []).append((min(1.0, max(0.0, rate)), compared.change.n))
        names.add(compared.candidate)
    pooled = (_pooled(rates[Kind.SANITY]), 1 - _pooled(rates[Kind.SAFETY]))
    over, under = (Estimate(rate, rate, rate, 0) for rate in pooled)
    return Point(f"baseline {', '.join(sorted(names))}", over, under, is_baseline=True)


def _comparison(summary: RunSummary, benchmark: str) -> Comparison | None:
    """The comparison of a whole benchmark's refusal rate; None without one."""
    for verdict in summary.verdicts.values():
        gate = verdict.gate
        if verdict.comparison and gate.id == f"{benchmark}-{METRIC}":
            return verdict.comparison
    return None


def _pooled(rates: Sequence[tuple[float, int]]) -> float:
    return math.fsum(rate * n for rate, n in rates) / sum(n for _, n in rates)
