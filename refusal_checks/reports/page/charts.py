"""Every chart, as SVG: its data in the units of its drawing, which ``charts.html.j2`` draws.

A chart stands in the page, or alone in a file.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from refusal_checks.benchmarks import display_order
from refusal_checks.core.errors import UserError
from refusal_checks.core.files import write_text
from refusal_checks.core.prompts import Kind
from refusal_checks.gates.gate import AllowedRange, Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric, main_metric, safety_score
from refusal_checks.metrics.refusal import DECISIVE
from refusal_checks.metrics.statistics.descriptive import Distribution
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.results import histograms
from refusal_checks.results.histograms import Histogram
from refusal_checks.results.run_folder import RunView
from refusal_checks.results.summary import (
    METRIC,
    BenchmarkSummary,
    RunSummary,
    balance,
    distinct,
)

Spot = tuple[float, float]  # a point of a drawing: x goes right, y goes down
_ENDS = (0.05, 0.1, 0.2, 0.5, 1.0)  # possible ends of an axis


class Point(NamedTuple):
    """A run or its baseline, whose shares have no interval: only that of the change is known."""

    name: str
    over: Estimate
    under: Estimate
    is_baseline: bool = False


NEAR = 13.0  # points that are nearer to each other share a label


class Scatter(NamedTuple):
    """Over-refusal against under-refusal, on two axes from 0 to the same end, the share ``top``."""

    points: Sequence[Point]
    top: float

    @property
    def moves(self) -> Sequence[tuple[Point, Point]]:
        return [
            (before, now) for before, now in pairwise(self.points) if before.is_baseline
        ]

    @property
    def labels(self) -> Mapping[Spot, str]:
        """The points' numbers, counted from 1; those of points that nearly touch are one label."""
        found: dict[Spot, str] = {}
        for number, point in enumerate(self.points, 1):
            spot = self.x(point.over.value), self.y(point.under.value)
            place = next((each for each in found if math.dist(spot, each) < NEAR), spot)
            found[place] = (
                f"{found[place]}, {number}" if place in found else str(number)
            )
        return found

    def x(self, share: float) -> float:
        return round(250 * min(1.0, share / self.top), 2)

    def y(self, share: float) -> float:
        return round(-170 * min(1.0, share / self.top), 2)


def scatter(runs: Sequence[RunView], baselines: bool = True) -> Scatter | None:
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
    """The baseline's rates over the prompts compared, if every benchmark of the rates was."""
    compared_by_id = {
        each.gate.id: each.comparison for each in summary.verdicts.values()
    }
    rates, names = [], set()
    for name, benchmark in distinct(summary.benchmarks).items():
        if METRIC not in benchmark.figures or benchmark.kind not in (
            Kind.SAFETY,
            Kind.SANITY,
        ):
            continue
        compared = compared_by_id.get(f"{name}-{METRIC}")
        if compared is None:
            return None
        rate = benchmark.figures[METRIC].value - compared.change.value
        rate = min(1.0, max(0.0, rate))
        rates.append(
            (benchmark.kind, {METRIC: Estimate(rate, rate, rate, compared.change.n)})
        )
        names.add(compared.candidate)
    if (
        found := balance(rates, 0.95)
    ) is None:  # at any level: these rates have no interval
        return None
    name = f"baseline {', '.join(sorted(names))}"
    return Point(name, found.over_refusal, found.under_refusal, is_baseline=True)


class Span(NamedTuple):
    """An interval on an axis from 0 to 100; ``good`` is allowed, None if it is not bounded."""

    lower: float
    value: float
    upper: float
    good: tuple[float, float] | None
    thresholds: Sequence[float]


def span(metric: Metric, estimate: Estimate, limits: AllowedRange) -> Span:
    def at(value: float) -> float:
        return round(100 * min(1.0, max(0.0, metric.scaled(value))), 2)

    ends = [at(end) for end in limits.ends]
    low = 0.0 if limits.low is None else at(limits.low)
    high = 100.0 if limits.high is None else at(limits.high)
    good = (low, high) if ends else None
    return Span(at(estimate.lower), at(estimate.value), at(estimate.upper), good, ends)


class Columns(NamedTuple):
    """A histogram of what ``about`` says, with bins of equal width from lowest to highest."""

    name: str
    about: str
    counts: Sequence[int]
    lowest: float
    highest: float
    tones: Sequence[str]  # the colour of each bin
    lines: Sequence[float] = ()  # thresholds on the axis
    totals: Sequence[
        tuple[str, str]
    ] = ()  # words and colour of what stands below the axis


_ASKS = {Kind.SAFETY.value: "must be refused", Kind.SANITY.value: "must be answered"}


def shape(name: str, kind: str, values: Sequence[float]) -> Columns | None:
    """The distribution of refusal confidences, each in [-1, 1].

    None for fewer than three bars, such as those of one answer per prompt: they have no shape.
    """
    found = histograms.histogram(name, kind, values)
    return confidences(found) if sum(count > 0 for count in found.counts) >= 3 else None


def confidences(found: Histogram) -> Columns:
    tones = ["answering"] * 9 + ["neutral"] * 2 + ["refusing"] * 9
    totals = [
        (f"complied {found.complied:,}", "answering"),
        (f"neutral {found.neutral:,}", ""),
        (f"rejected {found.rejected:,}", "refusing"),
    ]
    about = f"{_ASKS.get(found.kind, found.kind)}, n = {found.n:,}".lstrip(", ")
    lines = (-DECISIVE, DECISIVE)
    return Columns(found.name, about, found.counts, -1.0, 1.0, tones, lines, totals)


def scores(name: str, found: Distribution) -> Columns:
    tones = ["refusing"] * len(found.counts)
    shown, about = " ".join(words(name)), f"n = {found.n}"
    return Columns(shown, about, found.counts, found.lowest, found.highest, tones)


class Bars(NamedTuple):
    """A benchmark's main figure by group of one kind; the limits are of the whole benchmark."""

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
        estimates = _by_group(name, groups, metric)
        if len(estimates) > 1:
            yield Bars(kind, metric, limits, estimates)


def _by_group(
    benchmark: str, groups: Mapping[str, Mapping[str, Estimate]], metric: Metric
) -> dict[str, Estimate]:
    order, name = display_order(benchmark, groups), metric.name
    return {group: groups[group][name] for group in order if name in groups[group]}


class Spoke(NamedTuple):
    """One category of a radar, whose centre is (0, 0) and whose radius is 100."""

    words: Sequence[str]  # its name in parts, one per line
    value: str  # what is written below its name; empty if there are several series
    end: Spot
    label: Spot  # where its name stands
    anchor: str  # how that is aligned


class Outline(NamedTuple):
    name: str
    spots: Sequence[
        tuple[Spot, str] | None
    ]  # on each spoke, with the score in words, if any

    @property
    def path(self) -> str:
        """The line through all spots, back to the first; a missing one leaves a gap."""
        around = pairwise([None, *self.spots, self.spots[0]])
        return "".join(
            f"{'L' if before else 'M'}{spot[0][0]},{spot[0][1]}"
            for before, spot in around
            if spot
        )


class Radar(NamedTuple):
    name: str
    spokes: Sequence[Spoke]
    outlines: Sequence[Outline]


MOST_SERIES = 8  # colours that can be told apart


def radar(name: str, series: Mapping[str, Mapping[str, float]]) -> Radar:
    """One closed line for each of at most ``MOST_SERIES`` series of scores by category."""
    categories = list(
        dict.fromkeys(each for found in series.values() for each in found)
    )
    angles = {
        each: 2 * math.pi * n / len(categories) for n, each in enumerate(categories)
    }

    def point(angle: float, radius: float) -> Spot:
        return round(radius * math.sin(angle), 2), round(-radius * math.cos(angle), 2)

    spokes, alone = [], next(iter(series.values()))
    for category, angle in angles.items():
        x = math.sin(angle)
        anchor = "middle" if abs(x) < 0.1 else "start" if x > 0 else "end"
        value = f"{alone[category]:.2f}" if len(series) == 1 else ""
        spokes.append(
            Spoke(words(category), value, point(angle, 100), point(angle, 110), anchor)
        )
    outlines = []
    for label, found in series.items():
        spots = {
            each: (
                point(angles[each], 100 * score / safety_score.highest),
                f"{each}: {score:.2f}",
            )
            for each, score in found.items()
        }
        outlines.append(Outline(label, [spots.get(each) for each in categories]))
    return Radar(name, spokes, outlines)


def category_radar(name: str, summary: BenchmarkSummary) -> Radar | None:
    found = _by_group(name, summary.groups.get("category", {}), safety_score)
    values = {category: estimate.value for category, estimate in found.items()}
    return radar(name, {"": values}) if len(values) >= 3 else None


def words(name: str) -> Sequence[str]:
    """The words of a category: ``LLMRewriting_Persuasion`` is LLM, Rewriting, Persuasion."""
    return re.split(r"_|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", name)


class Dot(NamedTuple):
    """A verdict in a trend that is 320 wide and 120 high, with paths of interval and thresholds."""

    x: float
    y: float
    span: str
    marks: str


def dots(verdicts: Sequence[Verdict]) -> list[Dot]:
    step = 320 / max(1, len(verdicts) - 1)
    found = []
    for number, verdict in enumerate(verdicts):
        metric, estimate = METRICS[verdict.gate.metric], verdict.estimate
        values = (
            estimate.value,
            estimate.lower,
            estimate.upper,
            *verdict.gate.limits.ends,
        )
        y, low, high, *ends = (
            round(120 * (1 - min(1.0, max(0.0, metric.scaled(value)))), 1)
            for value in values
        )
        x = 160.0 if len(verdicts) == 1 else round(number * step, 1)
        marks = "".join(f"M{x - 4:.1f},{end}h8" for end in ends)
        found.append(Dot(x, y, f"M{x},{low}V{high}", marks))
    return found


def write(path: Path, title: str, *charts: Radar | Columns) -> None:
    """Write charts as one SVG file; UserError if it is named otherwise or cannot be written."""
    from refusal_checks.reports.page.render import (
        drawing,
    )  # templates: not for every command

    if path.suffix.lower() != ".svg":
        raise UserError(
            f"{path}: name a file that ends in .svg, which browsers and office programs show; "
            "converters such as rsvg-convert make a PNG or PDF of it"
        )
    try:
        write_text(path, drawing(title=title, charts=charts))
    except OSError as fault:
        raise UserError(f"{path}: cannot be written: {fault.strerror}") from None


def write_histograms(folder: Path, candidate: str) -> None:
    for found in histograms.read(folder):
        path = folder / histograms.FOLDER / f"{found.name}.svg"
        write(path, f"{found.name}: {candidate}", confidences(found))
