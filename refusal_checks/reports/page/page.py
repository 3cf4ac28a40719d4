"""Write the page of a run.

Model output reaches the page as escaped template values, or as JSON that the script shows as text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from refusal_checks.core.files import write_lines
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import count
from refusal_checks.gates.gate import AllowedRange
from refusal_checks.metrics import METRICS
from refusal_checks.reports.page import charts
from refusal_checks.reports.page.charts import Bars, Columns, Radar
from refusal_checks.reports.page.gate_rows import Section, rows, sections
from refusal_checks.reports.page.manifest_facts import facts
from refusal_checks.reports.page.payload import Payload
from refusal_checks.reports.page.render import document, embed
from refusal_checks.reports.run_view import RunView
from refusal_checks.reports.wording import failures
from refusal_checks.reports.wording.remarks import more_remarks, remarks, wrong
from refusal_checks.reports.wording.verdicts import details
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary


@dataclass(frozen=True)
class Report:
    """One run, with what the page derives from it; the template asks for the rest.

    Attributes:
        answer: tone (colour) of the headline.
        against: number of prompts that count against a gate, by number of its verdict.
        scores: distributions of safety scores, by benchmark.
        reasons_shown: reasons for gates that the page has shown already.
    """

    run: RunView
    answer: str
    headline: str
    reasons: Sequence[str]
    sections: Sequence[Section]
    payloads: Sequence[Payload]
    against: Mapping[int, int] = field(default_factory=dict)
    histograms: Sequence[Columns] = ()
    bars: Mapping[str, Sequence[Bars]] = field(default_factory=dict)
    scores: Mapping[str, Sequence[Columns]] = field(default_factory=dict)
    radars: Sequence[Radar] = ()
    reasons_shown: list[str] = field(default_factory=list)

    @property
    def invalid(self) -> int:
        """Number of answers without a verdict."""
        return sum(
            sum(benchmark.invalid.values())
            for benchmark in self.run.summary.benchmarks.values()
        )

    @property
    def gates(self) -> str:
        """Ids of gates and whether each failed, as JSON."""
        gates = [
            (name, not verdict.passed)
            for name, verdict in self.run.summary.verdicts.items()
        ]
        return Markup(embed(gates))  # noqa: S704  # embed() makes it safe


def report(run: RunView) -> Report:
    summaries = run.summary.benchmarks
    names = sorted(summaries, key=lambda name: _kind_order(summaries[name].kind))
    others = sorted(set(run.folder.benchmarks) - summaries.keys())
    benchmarks = [_payload(run, name) for name in [*names, *others]]
    against: Counter[int] = Counter()
    histograms = []
    for benchmark in benchmarks:
        against.update(benchmark.against)
        shape = charts.shape(benchmark.name, benchmark.kind, benchmark.confidences)
        if shape:
            histograms.append(shape)
    gates = [verdict.gate for verdict in run.summary.verdicts.values()]
    bars, scores = {}, {}
    for name in names:
        by_group = list(charts.bars(name, summaries[name], gates))
        if by_group:
            bars[name] = by_group
        by_category = list(charts.safety_scores(name, summaries[name]))
        if by_category:
            scores[name] = by_category
    reasons = [*dict.fromkeys(run.decision.reasons), run.decision.stored]
    if run.decision.answer == "no":
        del reasons[0]  # how many gates failed: the page lists them
    return Report(
        run=run,
        answer=run.decision.answer,
        headline=run.decision.headline,
        reasons=tuple(reason for reason in reasons if reason),
        sections=sections(rows(run)),
        payloads=benchmarks,
        against=against,
        histograms=histograms,
        bars=bars,
        scores=scores,
        radars=charts.radars(summaries),
    )


def _kind_order(kind: str) -> int:
    """Sort key: benchmarks whose prompts must be refused come first."""
    kinds = [*Kind, kind]
    return kinds.index(kind)


def _payload(run: RunView, name: str) -> Payload:
    summary = run.summary.benchmarks.get(name)
    verdicts = list(run.summary.verdicts.values())
    kind = summary.kind if summary else ""
    return Payload(name, kind, verdicts, run.folder.records(name))


def _notes(run: RunSummary) -> list[str]:
    return [*remarks(run), *more_remarks(run)]


def write(folder: RunFolder, path: Path) -> None:
    """Write the page of an ended run atomically.

    Raises:
        OSError, DataError: the file cannot be written, or the run's folder is damaged.
    """
    run = RunView(folder, folder.summary())
    title = f"{run.candidate}: {run.decision.headline}"
    tools = {
        "count": count,
        "drawing": charts.span,
        "facts": facts,
        "limits": AllowedRange,
        "metrics": METRICS,
        "moved": failures.moved,
        "notes": _notes,
        "details_of": details,
        "wrong": wrong,
    }
    write_lines(path, document(title=title, view=report(run), **tools))
