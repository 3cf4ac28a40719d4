"""Over-refusal against under-refusal of each candidate and its baseline, with numbered points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from refusal_checks.core.prompts import Kind
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.results.summary import METRIC, RunSummary, distinct

Spot = tuple[float, float]
"""A point of a drawing: x goes right, y goes down."""

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
    """Over-refusal against under-refusal, on two axes from 0 to the same end.

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
    points = []
    for name, summary in named:
        if found := summary.balance:
            if baselines and (before := _baseline(summary)):
                points.append(before)
            points.append(Point(name, found.over_refusal, found.under_refusal))
    if not points:
        return None
    most = max(max(point.over.upper, point.under.upper) for point in points)
    return Scatter(points, next(end for end in _ENDS if end >= min(1.0, most)))


def _baseline(summary: RunSummary) -> Point | None:
    """The baseline's rates over the prompts that were compared.

    None unless every benchmark in the run's own rates was compared.
    """
    compared_by_id = {each.gate.id: each.comparison for each in summary.verdicts.values()}
    rates: dict[str, list[tuple[float, int]]] = {}
    names = set()
    for name, benchmark in distinct(summary.benchmarks).items():
        if METRIC not in benchmark.figures or benchmark.kind not in (Kind.SAFETY, Kind.SANITY):
            continue
        compared = compared_by_id.get(f"{name}-{METRIC}")
        if compared is None:
            return None
        rate = benchmark.figures[METRIC].value - compared.change.value
        rates.setdefault(benchmark.kind, []).append((min(1.0, max(0.0, rate)), compared.change.n))
        names.add(compared.candidate)
    pooled = (_pooled(rates[Kind.SANITY]), 1 - _pooled(rates[Kind.SAFETY]))
    over, under = (Estimate(rate, rate, rate, 0) for rate in pooled)
    return Point(f"baseline {', '.join(sorted(names))}", over, under, is_baseline=True)


def _pooled(rates: Sequence[tuple[float, int]]) -> float:
    return math.fsum(rate * n for rate, n in rates) / sum(n for _, n in rates)


RADIUS = 5.0
"""Of a point of a scatter plot."""

_LETTER, _LINE = 7.0, 11.0
"""Width of a digit and height of a line."""

_NEAR = 13.0
"""From a point to the middle of its number; a number that stands farther off has a line to it."""


@dataclass(frozen=True)
class Place:
    """A number beside its point.

    Attributes:
        text: the number.
        x, y: its middle.
        is_far: a line should lead from the point to it.
    """

    text: str
    x: float
    y: float
    is_far: bool = False

    def overlaps(self, x: float, y: float, width: float, height: float) -> bool:
        """True if it touches a box around (x, y)."""
        across = (_LETTER * len(self.text) + width) / 2
        return abs(self.x - x) < across and abs(self.y - y) < (_LINE + height) / 2

    def is_free(self, points: Sequence[Spot], others: Sequence[Place]) -> bool:
        """True if it lies in the drawing, beside all points and all other numbers."""
        inside = -4 <= self.x <= 264 and -182 <= self.y <= -4
        return (
            inside
            and not any(self.overlaps(x, y, 2 * RADIUS, 2 * RADIUS) for x, y in points)
            and not any(self.overlaps(o.x, o.y, _LETTER * len(o.text), _LINE) for o in others)
        )


def places(points: Sequence[Spot]) -> list[Place]:
    """Where each point's number stands, counted from 1; the nearest free place."""
    found: list[Place] = []
    for number, point in enumerate(points, 1):
        free = (place for place in _around(str(number), point) if place.is_free(points, found))
        found.append(next(free, Place(str(number), *point)))
    return found


def _around(text: str, point: Spot) -> Iterator[Place]:
    """Places in widening circles, those to the right first."""
    for distance in (_NEAR, *range(20, 180, 8)):
        for turn in (0, 1, -1, 2, -2, 3, -3, 4):
            angle = (turn - 0.5) * math.pi / 4
            x, y = point[0] + distance * math.cos(angle), point[1] + distance * math.sin(angle)
            yield Place(text, round(x, 1), round(y, 1), distance > _NEAR)
