"""The page: every way of looking at runs, in one template; what the payload lacks does not appear.

Model output reaches it as escaped template values, or as JSON that the script shows as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
from refusal_checks.reports import explain, remarks
from refusal_checks.reports.attack_matrix import matrix
from refusal_checks.reports.page import charts
from refusal_checks.reports.page.charts import Bars, Columns, Radar
from refusal_checks.reports.page.compare import SideBySide, side_by_side
from refusal_checks.reports.page.history import ManyRuns, links, report_file, trends
from refusal_checks.reports.page.model import RunView, Section, facts, rows, sections
from refusal_checks.reports.page.records import Payload
from refusal_checks.reports.page.render import document, embed
from refusal_checks.reports.page.scatter import scatter
from refusal_checks.results.progress import Count
from refusal_checks.results.run_folder import PastRun, RunFolder


@dataclass(frozen=True)
class Report:
    """One run with what the page works out of it; the template asks for the rest.

    Attributes:
        answer: the tone of the headline.
        against: by number of a verdict, how many prompts count against its gate.
        counts: how far each benchmark is; None for a run that has ended.
    """

    run: RunView
    answer: str
    headline: str
    reasons: Sequence[str]
    sections: Sequence[Section]
    payloads: Sequence[Payload]
    against: Mapping[int, int] = field(default_factory=dict)
    counts: Mapping[str, Count] | None = None
    histograms: Sequence[Columns] = ()
    bars: Mapping[str, Sequence[Bars]] = field(default_factory=dict)
    radars: Sequence[Radar] = ()

    @property
    def wrong(self) -> list[str]:
        return [text for text, _ in remarks.wrong(self.run.summary)]

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
    folder, known = run.folder, run.summary.benchmarks
    names = sorted(known, key=lambda name: [*Kind, known[name].kind].index(known[name].kind))
    benchmarks = {name: known[name] for name in names}  # those that must be refused first
    every = [*benchmarks, *sorted(set(folder.benchmarks) - benchmarks.keys())]
    read = {name: folder.records(name) for name in every} if recent is None else recent
    found = payloads(run, read)
    shapes = (charts.shape(each.name, each.kind, each.confidences) for each in found)
    gates = [verdict.gate for verdict in run.summary.verdicts.values()]
    bars = {name: list(charts.bars(name, each, gates)) for name, each in benchmarks.items()}
    radars = (charts.category_radar(*each) for each in benchmarks.items())
    return Report(
        run=run,
        answer=run.shipping.answer,
        headline=run.shipping.headline,
        reasons=run.shipping.reasons,
        sections=sections(rows(run)),
        payloads=found,
        against=sum((each.against for each in found), Counter[int]()),
        histograms=[shape for shape in shapes if shape and recent is None],
        bars={name: found for name, found in bars.items() if found},
        radars=[radar for radar in radars if radar],
    )


def payloads(run: RunView, records: Mapping[str, Iterable[Record]]) -> list[Payload]:
    """Each benchmark's records for the script."""
    verdicts, known = [*run.summary.verdicts.values()], run.summary.benchmarks
    return [
        Payload(name, known[name].kind if name in known else "", verdicts, each)
        for name, each in records.items()
    ]


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
        "count": count,
        "drawing": charts.span,
        "facts": facts,
        "limits": AllowedRange,
        "matrix": matrix,
        "metrics": METRICS,
        "moved": explain.moved,
        "notes": remarks.beside_the_gates,
        "scatter_of": scatter,
        "spurious_failures": explain.spurious_failures,
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
    together = scatter([each.run for each in found], baselines=False)
    write(path, title, reports=found, together=together, comparison=comparison)


def write_comparison(found: SideBySide, path: Path) -> None:
    """Write the page of several runs side by side."""
    title = ", ".join(f"{run.candidate}: {run.shipping.headline}" for run in found.runs)
    write(path, title, comparison=found)


def write_history(found: ManyRuns, path: Path) -> None:
    """Write the page of many runs, with links to the reports that are there."""
    suites: dict[str, list[Any]] = {}
    for trend in trends(found.runs):
        dots = charts.dots([row.verdict for row in trend.rows if row.verdict])
        suites.setdefault(trend.rows[0].benchmark, []).append((trend, dots))
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
