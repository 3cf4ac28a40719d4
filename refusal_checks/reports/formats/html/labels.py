"""Places for the numbers of a plot's points, so that none covers a point or another number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Spot = tuple[float, float]

WIDTH, HEIGHT = 250.0, 170.0
"""The plot: x from 0 to the right, y from 0 up to -``HEIGHT``."""

RADIUS = 5.0
"""Of a point."""

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
        inside = -4 <= self.x <= WIDTH + 14 and -HEIGHT - 12 <= self.y <= -4
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
