"""The page: every way of looking at runs, in one template; what the payload lacks does not appear.

Model output reaches it as escaped template values, or as JSON that the script shows as text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from refusal_checks.core.errors import UserError
from refusal_checks.core.files import write_lines
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Judgement
from refusal_checks.gates.gate import AllowedRange
from refusal_checks.gates.offenders import MissedBound
from refusal_checks.gates.verdict import Verdict
from refusal_checks.gates.wording import requirement
from refusal_checks.judges.trust.floors import ABOUT
from refusal_checks.metrics import METRICS, confidence
from refusal_checks.reports import changes, explain, rating_agreement, remarks
from refusal_checks.reports.attack_matrix import matrix
from refusal_checks.reports.page import charts
from refusal_checks.reports.page.charts import Bars, Columns, Radar
from refusal_checks.reports.page.model import Section, facts, rows, sections
from refusal_checks.reports.page.render import document, embed
from refusal_checks.reports.page.several import (
    ManyRuns,
    SideBySide,
    links,
    report_file,
    side_by_side,
    trends,
)
from refusal_checks.results.events import Count
from refusal_checks.results.run_folder import RunFolder, RunView


class Payload:
    """A benchmark's records as JSON for the page's script, and what the charts need of them.

    Everything is an array, whose places are named here and in ``script.js``; recurring words are
    numbers in a table::

    benchmark  {"name", "kind", "groups": [kind of group ...], "judges": [name ...],
                "words": [[verdict, tone] ...], "prompts": [prompt ...]}
    prompt     [id, [group or null ...], turns, confidence, [gate ...], reference, [answer ...]]
    turns      text of the user, or [[role, text] ...]
    answer     [text or null, judgement, facts, [[judge, judgement] ...]]
    judgement  [word, category or null, rationale]
    facts      what else is known, for example "ended by length, 12 tokens"

    A tone is the colour of a verdict: ``refusing``, ``answering`` or ``invalid``.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        verdicts: Sequence[Verdict],
        records: Iterable[Record],
    ) -> None:
        self.name = name
        self.kind = kind
        # By number of the verdict; each prompt lists the numbers of those that it counts against.
        self._standards = {
            number: bound
            for number, each in enumerate(verdicts)
            if each.gate.benchmark == name
            and (bound := MissedBound.of(each.gate, each.estimate.value))
        }
        self._words: dict[tuple[str, str], int] = {}
        self._judges: dict[str, int] = {}
        self._groups: dict[str, None] = {}
        self.confidences: list[float] = []  # of refusal, of each prompt that has one
        self.against: Counter[int] = Counter()  # prompts by number of the verdict
        found = groupby(records, lambda record: record.prompt)
        # In parts, since the whole may not fit the memory several times; embed() makes them safe.
        self.parts = [Markup("")]
        for number, (prompt, answers) in enumerate(found):
            text = embed(self._prompt(prompt, list(answers)))
            self.parts.append(Markup("," * (number > 0) + text))  # noqa: S704
        tables = {
            "groups": [*self._groups],
            "judges": [*self._judges],
            "words": [*self._words],
        }
        head = embed({"name": name, "kind": kind, **tables})
        self.parts[0] = Markup(f'{head[:-1]},"prompts":[')  # noqa: S704
        self.parts.append(Markup("]}"))

    def _prompt(self, prompt: Prompt, answers: Sequence[Record]) -> list[Any]:
        for kind in prompt.groups:
            self._groups.setdefault(kind)
        score = confidence(answers)
        if score is not None:
            self.confidences.append(score)
        against = [
            n for n, bound in self._standards.items() if bound.is_missed_by(answers)
        ]
        self.against.update(against)
        turns = [[turn.role, turn.content] for turn in prompt.messages]
        return [
            prompt.id,
            [prompt.groups.get(kind) for kind in self._groups],
            prompt.request if len(turns) == 1 and turns[0][0] == "user" else turns,
            None if score is None else round(score, 4),
            against,
            prompt.reference,
            [self._answer(record) for record in answers],
        ]

    def _answer(self, record: Record) -> list[Any]:
        text = record.completion.text if record.completion else None
        own, judges = self._judgement(record.judgement), self._judges
        votes = [
            [
                judges.setdefault(vote.judge, len(judges)),
                self._judgement(vote.judgement),
            ]
            for vote in record.votes
        ]
        return [text, own, ", ".join(_facts(record)), votes]

    def _judgement(self, judgement: Judgement) -> list[Any]:
        number = self._words.setdefault(judgement.shown, len(self._words))
        return [number, judgement.category, judgement.rationale]


def _facts(record: Record) -> Iterator[str]:
    completion, judgement = record.completion, record.judgement
    if completion:
        if completion.finish_reason != "stop":
            yield f"ended by {completion.finish_reason}"
        if completion.tokens:
            yield f"{completion.tokens} tokens"
        if completion.mean_logprob is not None:
            yield f"mean log-probability {completion.mean_logprob:.3f}"
        if completion.reasoning:
            yield f"reasoning {completion.reasoning}"
        if completion.label is not None:
            yield f"recorded label {completion.label}"
    if judgement.verdict != judgement.shown[0]:
        yield judgement.verdict
    if judgement.cut:
        yield f"{judgement.cut} characters not shown to the judge"
    if judgement.escaped:
        yield f"{judgement.escaped} special tokens broken up for the judge"


@dataclass(frozen=True)
class Report:
    """One run with what the page works out of it; the template asks for the rest."""

    run: RunView
    answer: str  # the tone of the headline
    headline: str
    reasons: Sequence[str]
    sections: Sequence[Section]
    payloads: Sequence[Payload]
    against: Mapping[int, int] = field(
        default_factory=dict
    )  # prompts by number of a verdict
    counts: Mapping[str, Count] | None = None  # by benchmark, while the run goes on
    histograms: Sequence[Columns] = ()
    bars: Mapping[str, Sequence[Bars]] = field(default_factory=dict)
    scores: Mapping[str, Sequence[Columns]] = field(default_factory=dict)
    radars: Sequence[Radar] = ()
    told: list[str] = field(
        default_factory=list
    )  # why gates are there, as far as it is said

    @property
    def invalid(self) -> int:
        found = [
            each
            for each in self.run.summary.benchmarks.values()
            if not each.is_repeated
        ]
        return sum(sum(each.invalid.values()) for each in found)

    @property
    def gates(self) -> str:
        gates = [
            (name, not found.passed)
            for name, found in self.run.summary.verdicts.items()
        ]
        return Markup(embed(gates))  # noqa: S704  # embed() makes it safe


def report(
    run: RunView, recent: Mapping[str, Sequence[Record]] | None = None
) -> Report:
    """A run that has ended, with all records of its folder or the `recent` ones by benchmark."""
    folder, known = run.folder, run.summary.benchmarks
    names = sorted(
        known, key=lambda name: [*Kind, known[name].kind].index(known[name].kind)
    )
    benchmarks = {
        name: known[name] for name in names
    }  # those that must be refused first
    every = [*benchmarks, *sorted(set(folder.benchmarks) - benchmarks.keys())]
    read = {name: folder.records(name) for name in every} if recent is None else recent
    found = payloads(run, read)
    shapes = (charts.shape(each.name, each.kind, each.confidences) for each in found)
    gates = [verdict.gate for verdict in run.summary.verdicts.values()]
    bars = {
        name: list(charts.bars(name, each, gates)) for name, each in benchmarks.items()
    }
    scores = {
        name: list(charts.safety_scores(name, each))
        for name, each in benchmarks.items()
    }
    return Report(
        run=run,
        answer=run.decision.answer,
        headline=run.decision.headline,
        reasons=tuple(filter(None, (*run.decision.reasons, run.decision.stored))),
        sections=sections(rows(run)),
        payloads=found,
        against=sum((each.against for each in found), Counter[int]()),
        histograms=[shape for shape in shapes if shape and recent is None],
        bars={name: found for name, found in bars.items() if found},
        scores={name: found for name, found in scores.items() if found},
        radars=charts.radars([run.summary]),
    )


def payloads(run: RunView, records: Mapping[str, Iterable[Record]]) -> list[Payload]:
    verdicts, known = [*run.summary.verdicts.values()], run.summary.benchmarks
    return [
        Payload(name, known[name].kind if name in known else "", verdicts, each)
        for name, each in records.items()
    ]


def write(path: Path, title: str, **views: Any) -> None:
    """Write the page of ``reports``, ``comparison`` or ``history``, all of it or none."""
    empty: dict[str, Any] = {
        "reports": [],
        "comparison": None,
        "history": None,
        "reload": None,
    }
    tools = {
        "about": ABOUT,
        "agreement": rating_agreement.tables,
        "count": count,
        "drawing": charts.span,
        "facts": facts,
        "limits": AllowedRange,
        "matrix": matrix,
        "metrics": METRICS,
        "moved": changes.moved,
        "notes": remarks.beside_the_gates,
        "requirement": requirement,
        "scatter_of": charts.scatter,
        "select": explain.select,
        "spurious_failures": explain.spurious_failures,
        "wrong": remarks.wrong,
    }
    written = datetime.now(UTC).isoformat(timespec="seconds")
    write_lines(path, document(title=title, written=written, **tools, **empty | views))


def write_runs(runs: Sequence[RunFolder], path: Path) -> None:
    """Write the page of runs that have ended; several stand side by side, too.

    Raises:
        OSError, DataError: the file cannot be written, or a run's folder is damaged.
    """
    past = [RunView(run, run.summary(), number) for number, run in enumerate(runs)]
    found = list(map(report, past))
    comparison = None
    with suppress(UserError):  # there is one run, or one is named twice
        comparison = side_by_side(past)
    title = ", ".join(f"{each.run.candidate}: {each.headline}" for each in found)
    together = charts.scatter([each.run for each in found], baselines=False)
    write(path, title, reports=found, together=together, comparison=comparison)


def write_comparison(found: SideBySide, path: Path) -> None:
    title = ", ".join(f"{run.candidate}: {run.decision.headline}" for run in found.runs)
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
    for run in found.runs:
        target = report_file(run.folder, path)
        if (
            not target.is_file()
            or target.stat().st_mtime < run.folder.summary_file.stat().st_mtime
        ):
            write_runs([run.folder], target)
