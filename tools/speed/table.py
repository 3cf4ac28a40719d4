"""The tables that the measurements print: ratios of ways that were measured by turns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEAD = (
    "ratio",
    "work",
    "candidate and judge on",
    "seconds, medians",
    "by turns",
    "median",
)


@dataclass(frozen=True)
class Ratio:
    """Two ways to do the same work, measured in turns.

    Attributes:
        name: of the ratio, ``(c) / (a)``.
        work: what is done; engines: what does it; both for people.
        slow, fast: seconds of each turn, of the way above the line and of the one below it.
    """

    name: str
    work: str
    engines: str
    slow: tuple[float, ...]
    fast: tuple[float, ...]

    @property
    def turns(self) -> list[float]:
        """The ratio in each turn."""
        return [slow / fast for slow, fast in zip(self.slow, self.fast, strict=True)]

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row in a table."""
        medians = (
            f"{statistics.median(self.slow):.1f} / {statistics.median(self.fast):.1f}"
        )
        turns = ", ".join(f"{turn:.2f}" for turn in self.turns)
        bold = f"**{statistics.median(self.turns):.2f}**"
        return self.name, self.work, self.engines, medians, turns, bold


def ratios(found: Sequence[Ratio]) -> str:
    """A Markdown table of ratios."""
    return markdown(HEAD, [each.cells for each in found])


def seconds(found: Mapping[str, Sequence[float]], head: str) -> str:
    """A Markdown table of figures by name, each measured several times.

    Args:
        head: what the names are.
    """
    rows = [
        (
            name,
            ", ".join(f"{value:.1f}" for value in values),
            f"**{statistics.median(values):.1f}**",
        )
        for name, values in found.items()
    ]
    return markdown((head, "by turns", "median"), rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
