"""Figures that are measured in turns, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tools.speed.table import Ratio


def say(line: str) -> None:
    """Print a line at once, also into a file or a pipe."""
    print(line, flush=True)


class Turns:
    """Figures, each measured once a turn; most are seconds.

    Attributes:
        figures: of each turn, by name.
    """

    def __init__(self) -> None:
        self.figures: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """Record one figure and show it."""
        self.figures.setdefault(name, []).append(value)
        say(f"  {name}: {value:.1f}")

    def last(self, name: str) -> float:
        """A figure of the last turn."""
        return self.figures[name][-1]

    def ratio(
        self, name: str, place: tuple[str, str], ways: tuple[str, str]
    ) -> list[Ratio]:
        """The ratio of two ways; none if one of them was not measured.

        Args:
            place: the work, and what it runs on.
        """
        slow, fast = (tuple(self.figures.get(way, ())) for way in ways)
        return [Ratio(name, *place, slow, fast)] if slow and fast else []

    def named(self, *parts: str) -> Mapping[str, list[float]]:
        """The figures whose names hold one of these words."""
        return {
            name: values
            for name, values in self.figures.items()
            if any(part in name for part in parts)
        }
