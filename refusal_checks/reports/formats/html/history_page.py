"""The page of many runs: a table of them, and a trend of every gate."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from refusal_checks.core.files import is_file_name, write_text
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.reports.formats import html
from refusal_checks.reports.formats.html.documents import document
from refusal_checks.reports.trends import Entry, Point, Trend, entries, trends
from refusal_checks.results.many_runs import ManyRuns
from refusal_checks.results.run_folder import RunFolder

WIDTH, HEIGHT = 320.0, 120.0
"""The drawing of a trend, in which x goes right and y goes down."""


@dataclass(frozen=True)
class Dot:
    """A point of a trend, in the units of its drawing.

    Attributes:
        y, low, high: of the figure and the ends of its interval.
        bounds: of the gate at that time.
    """

    point: Point
    x: float
    y: float
    low: float
    high: float
    bounds: Sequence[float]

    @property
    def span(self) -> str:
        """The path of its interval."""
        return f"M{self.x},{self.low}V{self.high}"

    @property
    def marks(self) -> str:
        """The path of its bounds."""
        return "".join(f"M{self.x - 4:.1f},{end}h8" for end in self.bounds)


@dataclass(frozen=True)
class Plot:
    """The drawing of a trend."""

    trend: Trend
    dots: Sequence[Dot]

    @property
    def line(self) -> str:
        """Through all of its points."""
        return " ".join(f"{dot.x},{dot.y}" for dot in self.dots)

    @property
    def spans(self) -> str:
        """The path of all intervals."""
        return "".join(dot.span for dot in self.dots)

    @property
    def bounds(self) -> str:
        """The path of all bounds."""
        return "".join(dot.marks for dot in self.dots)

    @property
    def metric(self) -> Metric:
        """What it shows."""
        return METRICS[self.trend.points[0].verdict.gate.metric]


def write(found: ManyRuns, path: Path) -> None:
    """Write the page, with links to the reports that are there; see ``report_file``.

    Raises:
        OSError: the file cannot be written.
    """
    known = entries(found.runs)
    plots = [_plot(each) for each in trends(known)]
    by_suite: dict[str, list[Plot]] = {}
    for plot in plots:
        by_suite.setdefault(plot.trend.benchmark, []).append(plot)
    parts = document(
        "history.html.j2",
        ["history.js", "theme.js"],
        entries=known[::-1],
        links=_links(known, path),
        skipped=found.skipped,
        suites=by_suite,
        choices=_choices(known),
        size=(WIDTH, HEIGHT),
    )
    write_text(path, "".join(parts))


def _choices(known: Sequence[Entry]) -> dict[str, list[str]]:
    """The values of the filters."""
    return {
        "candidate": sorted({entry.candidate for entry in known}),
        "suite": sorted({name for entry in known for name in entry.suites}),
        "judge": sorted({entry.judge for entry in known}),
    }


def write_reports(found: ManyRuns, path: Path) -> None:
    """Write the report of each run beside the page, unless it is newer than the run.

    Raises:
        OSError: a file cannot be written.
        DataError: a run's records are damaged.
    """
    for run, _ in found.runs:
        target = report_file(run, path)
        if not target.is_file() or target.stat().st_mtime < run.summary_file.stat().st_mtime:
            html.write([run], target)


def report_file(run: RunFolder, path: Path) -> Path:
    """Where the report of a run lies that is written for the page, apart if it shows no texts."""
    named = run.path.name if is_file_name(run.path.name) else "run"
    digest = hashlib.sha256(f"{type(run).__name__} {run.path.absolute()}".encode()).hexdigest()[:8]
    return path.parent / f"{path.stem}-reports" / f"{named}-{digest}.html"


def _links(known: Sequence[Entry], path: Path) -> Mapping[int, str]:
    """The address of each run's report from the page, by number."""
    return {
        entry.number: quote(Path(os.path.relpath(report, path.parent)).as_posix())
        for entry in known
        if (report := _report(entry.run.folder, path))
    }


def _report(run: RunFolder, path: Path) -> Path | None:
    """The page that was written for a run, else ``report.html`` in its folder, else none.

    The page in the folder may show texts, so it is not offered where none are to be shown.
    """
    places = [report_file(run, path)]
    if type(run) is RunFolder:
        places.append(run.path / "report.html")
    return next((place for place in places if place.is_file()), None)


def _plot(trend: Trend) -> Plot:
    step = WIDTH / max(1, len(trend.points) - 1)
    alone = len(trend.points) == 1
    return Plot(
        trend,
        [_dot(each, WIDTH / 2 if alone else n * step) for n, each in enumerate(trend.points)],
    )


def _dot(point: Point, x: float) -> Dot:
    gate, estimate = point.verdict.gate, point.verdict.estimate
    metric = METRICS[gate.metric]

    def y(value: float) -> float:
        return round(HEIGHT * (1 - min(1.0, max(0.0, metric.scaled(value)))), 1)

    bounds = [y(end) for end in gate.limits.ends]
    return Dot(point, round(x, 1), y(estimate.value), y(estimate.lower), y(estimate.upper), bounds)
