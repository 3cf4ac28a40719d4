"""The report's page: the runs' contents in the templates.

Model output reaches it as escaped template values, or as JSON that the script shows as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup

from refusal_checks.core.prompts import Kind
from refusal_checks.reports import remarks
from refusal_checks.reports.attack_matrix import Cell, matrix
from refusal_checks.reports.formats.html import charts
from refusal_checks.reports.formats.html.charts import Bars, Radar
from refusal_checks.reports.formats.html.documents import document
from refusal_checks.reports.formats.html.facts import facts
from refusal_checks.reports.formats.html.gate_rows import Section, sections
from refusal_checks.reports.formats.html.payload import Payload, embed
from refusal_checks.reports.formats.html.scatter import Scatter, scatter
from refusal_checks.reports.remarks import worst_answers
from refusal_checks.results.histograms import Histogram
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.shipping import Shipping, shipping
from refusal_checks.results.summary import RunSummary


@dataclass(frozen=True)
class View:
    """One run, as the templates show it.

    Attributes:
        payloads: each completed benchmark's records as JSON.
        against: by number of a verdict, how many prompts count against its gate.
    """

    number: int
    summary: RunSummary
    candidate: str
    shipping: Shipping
    sections: Sequence[Section]
    histograms: Sequence[Histogram]
    bars: Mapping[str, Sequence[Bars]]
    radars: Sequence[Radar]
    scatter: Scatter | None
    facts: Mapping[str, Sequence[tuple[str, str]]]
    attacks: Mapping[str, Sequence[Cell]]
    payloads: Sequence[str]
    against: Mapping[int, int]

    @property
    def wrong(self) -> list[str]:
        """What is wrong, in words: a sentence for each gate that failed."""
        verdicts = self.summary.verdicts.values()
        return [remarks.full_sentence(verdict) for verdict in verdicts if not verdict.passed]

    @property
    def invalid(self) -> int:
        """Answers without a verdict."""
        found = [each for each in self.summary.benchmarks.values() if not each.is_repeated]
        return sum(sum(each.invalid.values()) for each in found)

    @property
    def has_changes(self) -> bool:
        """True if a gate was compared with a baseline."""
        return any(verdict.comparison for verdict in self.summary.verdicts.values())

    @property
    def notes(self) -> list[str]:
        """What a reader must know beside the gates."""
        found = self.summary
        lines = (remarks.second_judge_line, remarks.reasons_line)
        asked = (of(*each) for each in found.benchmarks.items() for of in lines)
        scope = remarks.bundled_scope([found])
        return [*found.notes, *scope, *chain.from_iterable(asked), *worst_answers(found)]

    @property
    def gates(self) -> str:
        """Id and failure of each of the run's gates for the script, by number of their verdicts."""
        gates = [(name, not found.passed) for name, found in self.summary.verdicts.items()]
        return Markup(embed(gates))  # noqa: S704  # embed() makes it safe


def page(runs: Sequence[RunFolder]) -> Iterator[str]:
    """The page in parts.

    Raises:
        DataError: a run's folder is damaged.
    """
    views = [_view(number, run) for number, run in enumerate(runs)]
    together = scatter([(view.candidate, view.summary) for view in views], baselines=False)
    scripts = ("records.js", "controls.js", "theme.js")
    return document("report.html.j2", scripts, views=views, together=together)


def _view(number: int, run: RunFolder) -> View:
    summary = run.summary()
    verdicts = dict(enumerate(summary.verdicts.values()))
    payloads, histograms = [], []
    against: dict[int, int] = {}
    names = sorted(summary.benchmarks, key=lambda name: _rank(summary.benchmarks[name].kind))
    for name in [*names, *sorted(set(run.benchmarks) - set(names))]:
        kind = summary.benchmarks[name].kind if name in names else ""
        payload = Payload(name, kind, verdicts)
        payloads.append(Markup(payload.read(run.records(name))))  # noqa: S704  # made by embed()
        against.update(payload.against)
        if shape := charts.histogram(name, payload.kind, payload.confidences):
            histograms.append(shape)
    candidate = summary.manifest.shown or run.path.name
    return View(
        number=number,
        summary=summary,
        candidate=candidate,
        shipping=shipping(summary),
        sections=sections(summary),
        histograms=histograms,
        bars={name: drawn for name in names if (drawn := _bars(name, summary))},
        radars=[chart for name in names if (chart := charts.radar(name, summary.benchmarks[name]))],
        scatter=scatter([(candidate, summary)]),
        facts=facts(summary),
        attacks=matrix(summary),
        payloads=payloads,
        against=against,
    )


def _rank(kind: str) -> int:
    """The place of a kind's benchmarks, those that must be refused first."""
    return [*Kind, kind].index(kind)


def _bars(name: str, summary: RunSummary) -> list[Bars]:
    limits = {
        gate.metric: gate.limits
        for gate in (verdict.gate for verdict in summary.verdicts.values())
        if gate.benchmark == name and gate.group is None
    }
    return list(charts.bars(name, summary.benchmarks[name], limits))
