"""The data of the charts, in the units of their drawings; ``charts.html.j2`` draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.benchmarks import display_order
from refusal_checks.gates.gate import AllowedRange
from refusal_checks.metrics import Metric, main_metric, safety_score
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.chart_files import words
from refusal_checks.results import histograms
from refusal_checks.results.histograms import Histogram
from refusal_checks.results.summary import BenchmarkSummary


@dataclass(frozen=True)
class Span:
    """An interval on an axis from 0 to 100.

    Attributes:
        good: the allowed range of the figure; None if it is not bounded.
        lines: thresholds.
    """

    lower: float
    value: float
    upper: float
    good: tuple[float, float] | None
    lines: Sequence[float]


def span(metric: Metric, estimate: Estimate, limits: AllowedRange) -> Span:
    """An estimate on its metric's whole range."""

    def at(value: float) -> float:
        share = (value - metric.lowest) / (metric.highest - metric.lowest)
        return round(100 * min(1.0, max(0.0, share)), 2)

    lines = [at(end) for end in limits.ends]
    low = 0.0 if limits.low is None else at(limits.low)
    high = 100.0 if limits.high is None else at(limits.high)
    good = (low, high) if lines else None
    return Span(at(estimate.lower), at(estimate.value), at(estimate.upper), good, lines)


def histogram(name: str, kind: str, confidences: Sequence[float]) -> Histogram | None:
    """The distribution of refusal confidences, each in [-1, 1].

    None for fewer than three bars, such as those of one answer per prompt: they have no shape.
    """
    found = histograms.histogram(name, kind, confidences)
    return found if sum(count > 0 for count in found.counts) >= 3 else None


@dataclass(frozen=True)
class Bars:
    """A benchmark's main figure by group of one kind.

    Attributes:
        limits: of the gate on the whole benchmark.
    """

    by: str
    metric: Metric
    limits: AllowedRange
    estimates: Mapping[str, Estimate]


def bars(
    name: str, summary: BenchmarkSummary, limits: Mapping[str, AllowedRange]
) -> Iterator[Bars]:
    """A chart for each kind of group that has at least two groups.

    Args:
        limits: of the gates on the whole benchmark, by metric.
    """
    metric = main_metric(summary.figures)
    if metric is None:
        return
    for kind, groups in summary.groups.items():
        estimates = _figures(name, groups, metric)
        if len(estimates) > 1:
            yield Bars(kind, metric, limits.get(metric.name, AllowedRange()), estimates)


def _figures(
    benchmark: str, groups: Mapping[str, Mapping[str, Estimate]], metric: Metric
) -> dict[str, Estimate]:
    """A metric by group, in the benchmark's order."""
    names = (group for group in display_order(benchmark, groups) if metric.name in groups[group])
    return {group: groups[group][metric.name] for group in names}


@dataclass(frozen=True)
class Spoke:
    """One category of a radar, with the place of its name.

    Attributes:
        words: its name in parts, one per line.
        end, at, label: points, in a drawing whose centre is (0, 0) and whose radius is 100.
        anchor: how the name is aligned.
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


def radar(name: str, summary: BenchmarkSummary) -> Radar | None:
    """The radar of a rated benchmark; None if it has fewer than three categories."""
    scores = _figures(name, summary.groups.get("category", {}), safety_score)
    if len(scores) < 3:
        return None
    turn = 2 * math.pi / len(scores)
    return Radar(name, [_spoke(*item, n * turn) for n, item in enumerate(scores.items())])


def _spoke(name: str, estimate: Estimate, angle: float) -> Spoke:
    def point(radius: float) -> tuple[float, float]:
        return round(radius * math.sin(angle), 2), round(-radius * math.cos(angle), 2)

    x, _ = point(1)
    return Spoke(
        name=name,
        words=words(name),
        value=estimate.value,
        n=estimate.n,
        end=point(100),
        at=point(100 * estimate.value / safety_score.highest),
        label=point(110),
        anchor="middle" if abs(x) < 0.1 else "start" if x > 0 else "end",
    )
