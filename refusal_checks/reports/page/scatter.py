"""Over-refusal against under-refusal of each candidate and its baseline, with numbered points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from refusal_checks.core.prompts import Kind
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.page.model import RunView
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
    """Over-refusal against under-refusal, on two axes from 0 to the same end, the share ``top``."""

    points: Sequence[Point]
    top: float

    @property
    def moves(self) -> Sequence[tuple[Point, Point]]:
        """Each baseline with the run after it."""
        return [(before, now) for before, now in pairwise(self.points) if before.is_baseline]

    @property
    def labels(self) -> Sequence[Label]:
        return labels([(self.x(p.over.value), self.y(p.under.value)) for p in self.points])

    def x(self, share: float) -> float:
        """The position of a share on the horizontal axis, from 0 to 250."""
        return round(250 * min(1.0, share / self.top), 2)

    def y(self, share: float) -> float:
        """The position of a share on the vertical axis, from 0 up to -170."""
        return round(-170 * min(1.0, share / self.top), 2)


def scatter(runs: Sequence[RunView], baselines: bool = True) -> Scatter | None:
    """The plot of runs, and of their baselines if wanted; None if no run has both rates."""
    points = []
    for run in runs:
        if found := run.summary.balance:
            if baselines and (before := _baseline(run.summary)):
                points.append(before)
            points.append(Point(run.candidate, found.over_refusal, found.under_refusal))
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
    refused = {
        kind: math.fsum(rate * n for rate, n in each) / sum(n for _, n in each)
        for kind, each in rates.items()
    }
    shares = (refused[Kind.SANITY], 1 - refused[Kind.SAFETY])
    over, under = (Estimate(rate, rate, rate, 0) for rate in shares)
    return Point(f"baseline {', '.join(sorted(names))}", over, under, is_baseline=True)


RADIUS = 5.0
"""Of a point of a scatter plot."""

_LETTER, _LINE = 7.0, 11.0
"""Width of a digit and height of a line."""

_NEAR = 13.0
"""From a point to the middle of its number; a number that stands farther off has a line to it."""


class Label(NamedTuple):
    """A number beside its point, around (x, y); a line should lead to it if ``is_far``."""

    text: str
    x: float
    y: float
    is_far: bool = False

    def is_free(self, points: Sequence[Spot], others: Sequence[Label]) -> bool:
        """True if it lies in the drawing, beside all points and all other numbers."""
        boxes = [(x, y, 2 * RADIUS, 2 * RADIUS) for x, y in points]
        boxes += [(o.x, o.y, _LETTER * len(o.text), _LINE) for o in others]
        own = _LETTER * len(self.text)
        return (-4 <= self.x <= 264 and -182 <= self.y <= -4) and not any(
            abs(self.x - x) < (own + width) / 2 and abs(self.y - y) < (_LINE + height) / 2
            for x, y, width, height in boxes
        )


def labels(points: Sequence[Spot]) -> list[Label]:
    """Each point's number, counted from 1, in the nearest free place."""
    found: list[Label] = []
    for number, point in enumerate(points, 1):
        free = (label for label in _around(str(number), point) if label.is_free(points, found))
        found.append(next(free, Label(str(number), *point)))
    return found


def _around(text: str, point: Spot) -> Iterator[Label]:
    """Places in widening circles, those to the right first."""
    for distance in (_NEAR, *range(20, 180, 8)):
        for turn in (0, 1, -1, 2, -2, 3, -3, 4):
            angle = (turn - 0.5) * math.pi / 4
            x, y = point[0] + distance * math.cos(angle), point[1] + distance * math.sin(angle)
            yield Label(text, round(x, 1), round(y, 1), distance > _NEAR)
