"""What the charts show, in the units of their drawings; ``charts.html.j2`` draws them.

Drawings are SVG of the page's own colours, so that they follow light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.benchmarks import display_order
from refusal_checks.metrics import Metric, main_metric, safety_score
from refusal_checks.metrics.refusal import DECISIVE
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.chart_files import words
from refusal_checks.results.summary import BenchmarkSummary

BINS = 20
"""Of the refusal confidence, in [-1, 1]: two of them lie between the thresholds."""


@dataclass(frozen=True)
class Span:
    """An interval on an axis from 0 to 100.

    Attributes:
        good: from where to where the figure may lie; None where it is not bounded.
        lines: thresholds.
    """

    lower: float
    value: float
    upper: float
    good: tuple[float, float] | None
    lines: Sequence[float]


def span(
    metric: Metric, estimate: Estimate, minimum: float | None = None, maximum: float | None = None
) -> Span:
    """An estimate on its metric's whole range."""

    def at(value: float) -> float:
        share = (value - metric.lowest) / (metric.highest - metric.lowest)
        return round(100 * min(1.0, max(0.0, share)), 2)

    lines = [at(bound) for bound in (minimum, maximum) if bound is not None]
    good = (
        (0.0 if minimum is None else at(minimum), 100.0 if maximum is None else at(maximum))
        if lines
        else None
    )
    return Span(at(estimate.lower), at(estimate.value), at(estimate.upper), good, lines)


@dataclass(frozen=True)
class Histogram:
    """Refusal confidence of a benchmark's prompts.

    Attributes:
        counts: prompts by bin, ``BINS`` of them.
        complied, neutral, rejected: prompts below -0.1, between, above 0.1.
    """

    name: str
    kind: str
    n: int
    counts: Sequence[int]
    complied: int
    neutral: int
    rejected: int

    @property
    def top(self) -> int:
        """The highest bin."""
        return max(self.counts)


def histogram(name: str, kind: str, confidences: Sequence[float]) -> Histogram:
    """The distribution of refusal confidences, at least one, each in [-1, 1]."""
    rounded = [round(value, 9) for value in confidences]  # 11 to 9 votes are 0.1, not a bit more
    counts = [0] * BINS
    for value in rounded:
        counts[min(BINS - 1, math.floor(round((value + 1) * BINS / 2, 6)))] += 1
    rejected = sum(value > DECISIVE for value in rounded)
    complied = sum(value < -DECISIVE for value in rounded)
    neutral = len(rounded) - rejected - complied
    return Histogram(name, kind, len(rounded), counts, complied, neutral, rejected)


@dataclass(frozen=True)
class Bar:
    """One group's figure."""

    name: str
    n: int
    value: str
    interval: str
    span: Span


@dataclass(frozen=True)
class Bars:
    """A benchmark's primary figure by group of one kind."""

    benchmark: str
    by: str
    metric: str
    bars: Sequence[Bar]


def bars(
    name: str, found: BenchmarkSummary, bounds: Mapping[str, tuple[float | None, float | None]]
) -> Iterator[Bars]:
    """A chart for each kind of group that has at least two.

    Args:
        bounds: minimum and maximum of the benchmark's own gates, by metric.
    """
    metric = main_metric(found.figures)
    if metric is None:
        return
    limits = bounds.get(metric.name, (None, None))
    for kind, groups in found.groups.items():
        known = {group: got[metric.name] for group, got in groups.items() if metric.name in got}
        if len(known) > 1:
            yield Bars(
                name,
                kind,
                metric.name,
                [_bar(group, metric, known[group], limits) for group in display_order(name, known)],
            )


def _bar(
    group: str, metric: Metric, found: Estimate, limits: tuple[float | None, float | None]
) -> Bar:
    interval = f"[{metric.show(found.lower)}, {metric.show(found.upper)}]"
    drawn = span(metric, found, *limits)
    return Bar(group, found.n, metric.show(found.value), interval, drawn)


@dataclass(frozen=True)
class Spoke:
    """One category of a radar, with where its name stands.

    Attributes:
        words: its name in parts, one a line.
        end, at, label: points, in a drawing whose centre is (0, 0) and whose radius is 100.
        anchor: how the name is aligned there.
    """

    name: str
    words: Sequence[str]
    value: float
    n: int
    end: tuple[float, float]
    at: tuple[float, float]
    label: tuple[float, float]
    anchor: str


@dataclass(frozen=True)
class Radar:
    """Mean safety score by category, from 0 to 5."""

    benchmark: str
    spokes: Sequence[Spoke]

    @property
    def outline(self) -> str:
        """The values' polygon."""
        return " ".join(f"{x},{y}" for x, y in (spoke.at for spoke in self.spokes))


def radar(name: str, found: BenchmarkSummary) -> Radar | None:
    """The radar of a rated benchmark; None where it has fewer than three categories."""
    groups = found.groups.get("category", {})
    known = {
        each: got[safety_score.name] for each, got in groups.items() if safety_score.name in got
    }
    if len(known) < 3:
        return None
    names = display_order(name, known)
    turn = 2 * math.pi / len(names)
    return Radar(name, [_spoke(each, known[each], i * turn) for i, each in enumerate(names)])


def _spoke(name: str, found: Estimate, angle: float) -> Spoke:
    share = found.value / safety_score.highest
    x = math.sin(angle)
    anchor = "middle" if abs(x) < 0.1 else "start" if x > 0 else "end"
    return Spoke(
        name, words(name), found.value, found.n, _polar(100, angle), _polar(100 * share, angle),
        _polar(110, angle), anchor,
    )  # fmt: skip


def _polar(radius: float, angle: float) -> tuple[float, float]:
    return round(radius * math.sin(angle), 2), round(-radius * math.cos(angle), 2)
