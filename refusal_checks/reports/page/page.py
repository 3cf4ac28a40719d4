"""The page: every way of looking at runs, in one template; what the payload lacks does not appear.

Model output reaches it as escaped template values, or as JSON that the script shows as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from refusal_checks.core.errors import UserError
from refusal_checks.core.files import write_text
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.text import count
from refusal_checks.gates.gate import AllowedRange
from refusal_checks.judges.trust.canary import ABOUT
from refusal_checks.metrics import METRICS
from refusal_checks.reports.attack_matrix import Cell, matrix
from refusal_checks.reports.explain import spurious_failures
from refusal_checks.reports.page import charts
from refusal_checks.reports.page.charts import Bars, Columns, Radar
from refusal_checks.reports.page.compare import SideBySide, side_by_side
from refusal_checks.reports.page.history import ManyRuns, links, report_file, trends
from refusal_checks.reports.page.model import RunView, Section, facts, rows, sections
from refusal_checks.reports.page.records import Payload
from refusal_checks.reports.page.render import document, embed
from refusal_checks.reports.page.scatter import Scatter, scatter
from refusal_checks.results.progress import Count
from refusal_checks.results.run_folder import PastRun, RunFolder


@dataclass(frozen=True)
class Report:
    """One run with all that the page says of it.

    Attributes:
        answer: the tone of the headline.
        payloads: each benchmark's records as JSON.
        against: by number of a verdict, how many prompts count against its gate.
        counts: how far each benchmark is; None for a run that has ended.
    """

    run: RunView
    answer: str
    headline: str
    reasons: Sequence[str]
    sections: Sequence[Section]
    facts: Mapping[str, Sequence[tuple[str, str]]]
    payloads: Sequence[str]
    against: Mapping[int, int]
    histograms: Sequence[Columns] = ()
    bars: Mapping[str, Sequence[Bars]] | None = None
    radars: Sequence[Radar] = ()
    scatter: Scatter | None = None
    attacks: Mapping[str, Sequence[Cell]] | None = None
    counts: Mapping[str, Count] | None = None

    @property
    def has_changes(self) -> bool:
        """True if a gate was compared with a baseline."""
        return any(verdict.comparison for verdict in self.run.summary.verdicts.values())

    @property
    def invalid(self) -> int:
        """Answers without a verdict."""
        found = [each for each in self.run.summary.benchmarks.values() if not each.is_repeated]
        return sum(sum(each.invalid.values()) for each in found)

    @property
    def gates(self) -> str:
        """Id and failure of each of the run's gates for the script, by number of their verdicts."""
        gates = [(name, not found.passed) for name, found in self.run.summary.verdicts.items()]
        return Markup(embed(gates))  # noqa: S704  # embed() makes it safe


def report(run: RunView, recent: Mapping[str, Sequence[Record]] | None = None) -> Report:
    """A run that has ended.

    Args:
        recent: the records to show, by benchmark, without histograms; None for all of its folder.

    Raises:
        DataError: its folder is damaged.
    """
    summary, folder = run.summary, run.folder
    known = summary.benchmarks  # those that must be refused first
    names = sorted(known, key=lambda name: [*Kind, known[name].kind].index(known[name].kind))
    benchmarks = {name: known[name] for name in names}
    every = [*names, *sorted(set(folder.benchmarks) - set(names))]
    read = {name: folder.records(name) for name in every} if recent is None else recent
    found, drawn = payloads(run, read), []
    against: dict[int, int] = {}
    for each in found:
        against.update(each.against)
        if recent is None and (shape := charts.shape(each.name, each.kind, each.confidences)):
            drawn.append(shape)
    radars = (charts.category_radar(*each) for each in benchmarks.items())
    bars = {
        name: list(charts.bars(name, each, _limits(run, name))) for name, each in benchmarks.items()
    }
    return Report(
        run=run,
        answer=run.shipping.answer,
        headline=run.shipping.headline,
        reasons=run.shipping.reasons,
        sections=sections(rows(run)),
        facts=facts(summary),
        payloads=[each.text for each in found],
        against=against,
        histograms=drawn,
        bars={name: found for name, found in bars.items() if found},
        radars=[chart for chart in radars if chart],
        scatter=scatter([(run.candidate, summary)]),
        attacks=matrix(summary),
    )


def payloads(run: RunView, records: Mapping[str, Iterable[Record]]) -> list[Payload]:
    """Each benchmark's records for the script."""
    verdicts = dict(enumerate(run.summary.verdicts.values()))
    known = run.summary.benchmarks
    return [
        Payload(name, known[name].kind if name in known else "", verdicts, each)
        for name, each in records.items()
    ]


def _limits(run: RunView, benchmark: str) -> dict[str, AllowedRange]:
    """The bounds of the gates on a whole benchmark, by metric."""
    gates = (verdict.gate for verdict in run.summary.verdicts.values())
    return {
        gate.metric: gate.limits
        for gate in gates
        if gate.benchmark == benchmark and gate.group is None
    }


def write(path: Path, title: str, **views: Any) -> None:
    """Write the page; readers see all of the new one, or the old one.

    Args:
        views: what it shows: ``reports``, ``comparison``, ``history``, and how it goes on.

    Raises:
        OSError: the file cannot be written.
    """
    empty: dict[str, Any] = {"reports": [], "comparison": None, "history": None, "reload": None}
    tools = {
        "about": ABOUT,
        "drawing": charts.span,
        "limits": AllowedRange,
        "metrics": METRICS,
        "spurious_failures": spurious_failures,
        "count": count,
    }
    written = datetime.now(UTC).isoformat(timespec="seconds")
    write_text(path, "".join(document(title=title, written=written, **tools, **empty | views)))


def write_runs(runs: Sequence[RunFolder], path: Path) -> None:
    """Write the page of runs that have ended; several stand side by side, too.

    Raises:
        OSError: the file cannot be written.
        DataError: a run's folder is damaged.
    """
    past = [PastRun(run, run.summary()) for run in runs]
    found = [report(RunView(number, *each)) for number, each in enumerate(past)]
    comparison = None
    with suppress(UserError):  # there is one run, or one is named twice
        comparison = side_by_side(past)
    title = ", ".join(f"{each.run.candidate}: {each.headline}" for each in found)
    together = scatter([(each.run.candidate, each.run.summary) for each in found], baselines=False)
    write(path, title, reports=found, together=together, comparison=comparison)


def write_comparison(found: SideBySide, path: Path) -> None:
    """Write the page of several runs side by side.

    Raises:
        OSError: the file cannot be written.
    """
    title = ", ".join(f"{run.candidate}: {run.shipping.headline}" for run in found.runs)
    write(path, title, comparison=found)


def write_history(found: ManyRuns, path: Path) -> None:
    """Write the page of many runs, with links to the reports that are there.

    Raises:
        OSError: the file cannot be written.
    """
    suites: dict[str, list[Any]] = {}
    for trend in trends(found.runs):
        dots = charts.dots([row.verdict for row in trend.rows if row.verdict])
        suites.setdefault(trend.benchmark, []).append((trend, dots))
    title = count(len(found.runs), "run")
    write(path, title, history=found, suites=suites, links=links(found.runs, path))


def write_reports(found: ManyRuns, path: Path) -> None:
    """Write the report of each run beside the page of all, unless it is newer than the run.

    Raises:
        OSError: a file cannot be written.
        DataError: a run's records are damaged.
    """
    for run in found.runs:
        target = report_file(run.folder, path)
        if not target.is_file() or target.stat().st_mtime < run.folder.summary_file.stat().st_mtime:
            write_runs([run.folder], target)
