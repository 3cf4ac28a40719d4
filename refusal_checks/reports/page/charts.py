"""The page's charts as SVG: this module computes drawing units, ``charts.html.j2`` draws."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from refusal_checks.benchmarks import display_order
from refusal_checks.core.prompts import Kind
from refusal_checks.gates.gate import AllowedRange, Gate
from refusal_checks.metrics import Metric, main_metric, safety_score
from refusal_checks.metrics.refusal_rates import DECISIVE
from refusal_checks.metrics.statistics.descriptive import Distribution, distribution
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.results.benchmark_summary import BenchmarkSummary

Spot = tuple[float, float]  # a point of a drawing: x goes right, y goes down


class Span(NamedTuple):
    """An interval on an axis from 0 to 100; ``good`` is the allowed range, None without bounds."""

    lower: float
    value: float
    upper: float
    good: tuple[float, float] | None
    thresholds: Sequence[float]


def span(metric: Metric, estimate: Estimate, limits: AllowedRange) -> Span:
    def at(value: float) -> float:
        return round(100 * min(1.0, max(0.0, metric.scale(value))), 2)

    ends = [at(end) for end in limits.ends]
    low = 0.0 if limits.low is None else at(limits.low)
    high = 100.0 if limits.high is None else at(limits.high)
    good = (low, high) if ends else None
    return Span(at(estimate.lower), at(estimate.value), at(estimate.upper), good, ends)


class Histogram(NamedTuple):
    """How many of a benchmark's prompts have each refusal confidence."""

    name: str
    about: str
    shape: Distribution
    # words and colour of the totals below, between and above the thresholds
    totals: Sequence[tuple[str, str]]


TONES = ["answering"] * 9 + ["neutral"] * 2 + ["refusing"] * 9
"""The colour of each bin."""

_ASKS = {
    Kind.SAFETY.value: "must be refused, ",
    Kind.SANITY.value: "must be answered, ",
}


def histogram(name: str, kind: str, values: Sequence[float]) -> Histogram | None:
    """Refusal confidences, each in [-1, 1].

    None for fewer than three bars, as with one answer per prompt: they have no shape.
    """
    # 20 bins of 0.1, so that the thresholds at -0.1 and 0.1 are edges.
    shape = distribution(values, -1.0, 1.0, len(TONES))
    if sum(map(bool, shape.counts)) < 3:
        return None
    rounded = [round(value, 9) for value in values]  # 11 to 9 votes are exactly 0.1
    rejected = sum(value > DECISIVE for value in rounded)
    complied = sum(value < -DECISIVE for value in rounded)
    totals = [
        (f"complied {complied:,}", "answering"),
        (f"neutral {shape.n - rejected - complied:,}", ""),
        (f"rejected {rejected:,}", "refusing"),
    ]
    return Histogram(name, f"{_ASKS.get(kind, '')}n = {shape.n:,}", shape, totals)


class Bars(NamedTuple):
    """A benchmark's main figure by group of one kind; the limits are the whole benchmark's."""

    by: str
    metric: Metric
    limits: AllowedRange
    estimates: Mapping[str, Estimate]


def bars(name: str, summary: BenchmarkSummary, gates: Iterable[Gate]) -> Iterator[Bars]:
    metric = main_metric(summary.figures)
    if metric is None:
        return
    of = (name, metric.name, None)
    bounds = (
        gate.limits for gate in gates if (gate.benchmark, gate.metric, gate.group) == of
    )
    limits = next(bounds, AllowedRange())
    for kind, groups in summary.groups.items():
        estimates = _group_estimates(name, groups, metric)
        if len(estimates) > 1:
            yield Bars(kind, metric, limits, estimates)


def _group_estimates(
    benchmark: str, groups: Mapping[str, Mapping[str, Estimate]], metric: Metric
) -> dict[str, Estimate]:
    order, name = display_order(benchmark, groups), metric.name
    return {group: groups[group][name] for group in order if name in groups[group]}


class Spoke(NamedTuple):
    """One category of a radar, whose centre is (0, 0) and whose radius is 100."""

    category: str
    words: Sequence[str]  # its name in parts, one per line
    value: str  # its score, which stands below its name
    spot: Spot  # position of the score
    end: Spot
    label: Spot  # position of its name
    anchor: str  # alignment of its name


class Radar(NamedTuple):
    name: str
    spokes: Sequence[Spoke]


def radars(benchmarks: Mapping[str, BenchmarkSummary]) -> list[Radar]:
    """A radar of mean safety scores by category for each rated benchmark."""
    radars = []
    for name, summary in benchmarks.items():
        groups = summary.groups.get("category", {})
        categories = _group_estimates(name, groups, safety_score)
        if len(categories) >= 3:  # two make a line
            step = 2 * math.pi / len(categories)
            spokes = [
                _spoke(category, place * step, estimate.value)
                for place, (category, estimate) in enumerate(categories.items())
            ]
            radars.append(Radar(name, spokes))
    return radars


def _spoke_point(angle: float, radius: float) -> Spot:
    """A point of a radar; angles are in radians, clockwise from the top."""
    return round(radius * math.sin(angle), 2), round(-radius * math.cos(angle), 2)


def _spoke(category: str, angle: float, score: float) -> Spoke:
    x = math.sin(angle)
    if abs(x) < 0.1:  # at the top or the bottom
        anchor = "middle"
    elif x > 0:
        anchor = "start"
    else:
        anchor = "end"
    return Spoke(
        category=category,
        words=words(category),
        value=f"{score:.2f}",
        spot=_spoke_point(angle, 100 * score / safety_score.highest),
        end=_spoke_point(angle, 100),
        label=_spoke_point(angle, 110),
        anchor=anchor,
    )


def words(name: str) -> Sequence[str]:
    """Split a category into words: ``LLMRewriting_Persuasion`` is LLM, Rewriting, Persuasion."""
    return re.split(r"_|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", name)
