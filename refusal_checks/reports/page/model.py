"""What the page shows: a run and its gates, whether it goes on, has ended or is one of many."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refusal_checks.core.prompts import Kind
from refusal_checks.core.redaction import pathless
from refusal_checks.core.text import count
from refusal_checks.engines import kinds
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.gates.wording import bounds_in_words, margins_in_words
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.models.demo import BUNDLED
from refusal_checks.models.names import RULE_JUDGES
from refusal_checks.reports import explain
from refusal_checks.reports.explain import select
from refusal_checks.reports.rows import benchmark_of
from refusal_checks.results.run_folder import RunView
from refusal_checks.results.summary import RunSummary

TONES = {
    **dict.fromkeys(("ERROR", "FAIL", "FAIL?"), "fail"),
    **dict.fromkeys(("waived", "warn?", "warn", "pass?"), "warn"),
    **dict.fromkeys(("outside so far", "within so far", "waiting"), "skip"),
    "pass": "pass",
    "skip": "skip",
}
"""The colours of marks, those first that need attention."""


@dataclass(frozen=True)
class GateRow:
    """One gate of one run, whose verdict may be missing for an error, or be still to come."""

    run: RunView
    id: str
    number: int | None = None  # of its verdict in the run
    verdict: Verdict | None = None
    error: str = ""  # why it has none
    planned: Gate | None = (
        None  # where it has no verdict, and more than its id is known
    )
    early: Estimate | None = None  # the figure so far, where there is no verdict yet
    change: Estimate | None = (
        None  # since the first of several runs, if they can be compared
    )

    @property
    def gate(self) -> Gate | None:
        return self.verdict.gate if self.verdict else self.planned

    @property
    def benchmark(self) -> str:
        return self.gate.benchmark if self.gate else benchmark_of(self.id)

    @property
    def metric(self) -> Metric | None:
        return METRICS.get(self.gate.metric) if self.gate else None

    @property
    def mark(self) -> str:
        if self.verdict:
            return explain.mark(self.verdict)
        if self.error or not self.gate:
            return "ERROR"
        if not self.early:
            return "waiting"
        inside = self.gate.limits.holds(self.early.value)
        return "within so far" if inside else "outside so far"

    @property
    def tone(self) -> str:
        return TONES[self.mark]

    @property
    def estimate(self) -> Estimate | None:
        return self.verdict.estimate if self.verdict else self.early

    @property
    def figure(self) -> str:
        return (
            self.gate.show(self.estimate.value) if self.gate and self.estimate else ""
        )

    @property
    def interval(self) -> str:
        if not self.gate or not self.estimate:
            return ""
        return f"{self.gate.interval(self.estimate)}, n = {self.estimate.n}"

    @property
    def must(self) -> str:
        return (
            (
                bounds_in_words(self.gate, "≥ {}", "≤ {}", ", ")
                or margins_in_words(self.gate)
            )
            if self.gate
            else ""
        )

    @property
    def since_baseline(self) -> tuple[str, str]:
        compared = self.verdict and self.verdict.comparison
        if not compared or not self.metric:
            return "", ""
        found, show = compared.change, self.metric.show_change
        lower, upper = (
            show(end).removesuffix(" points") for end in (found.lower, found.upper)
        )
        return show(found.value), f"[{lower}, {upper}], n = {found.n}"

    @property
    def reasons(self) -> Sequence[str]:
        return (
            select(self.verdict, "page")
            if self.verdict
            else [self.error] * bool(self.error)
        )

    @property
    def needs_attention(self) -> bool:
        return self.tone in ("fail", "warn")

    @property
    def is_of_a_group(self) -> bool:
        return self.gate is not None and self.gate.group is not None

    @property
    def is_of_judging(self) -> bool:
        """True for a gate on how answers were judged, which says nothing of the candidate."""
        return self.metric is not None and self.metric.group == "judging"


def rows(run: RunView, undecided: Iterable[GateRow] = ()) -> list[GateRow]:
    summary = run.summary
    errors = [GateRow(run, gate, error=why) for gate, why in summary.errors.items()]
    decided = [
        GateRow(run, gate, n, each)
        for n, (gate, each) in enumerate(summary.verdicts.items())
    ]
    return sorted(
        [*errors, *decided, *undecided], key=lambda row: list(TONES).index(row.mark)
    )


class Section(NamedTuple):
    """Gates that stand together: some always shown, others folded under a title."""

    rows: Sequence[GateRow]
    folded: Sequence[GateRow]
    title: str
    is_open: bool = (
        False  # since a folded one needs attention, and no other row says so
    )


def sections(found: Sequence[GateRow]) -> list[Section]:
    """A run's gates: a section per benchmark, the weightiest first, then those on judging.

    Gates on groups are folded under their benchmark, and gates on judging that need nobody.
    """
    parts, own = [], [row for row in found if not row.is_of_judging]
    for benchmark in dict.fromkeys(row.benchmark for row in own):
        part = [row for row in own if row.benchmark == benchmark]
        whole = [row for row in part if not row.is_of_a_group]
        groups = [row for row in part if row.is_of_a_group]
        is_open = any(row.needs_attention for row in groups)
        is_open = is_open and not any(row.needs_attention for row in whole)
        parts.append(Section(whole, groups, _title(groups, "on groups"), is_open))
    if judging := [row for row in found if row.is_of_judging]:
        shown = [row for row in judging if row.needs_attention]
        folded = [row for row in judging if not row.needs_attention]
        parts.append(
            Section(shown, folded, _title(folded, "on how answers were judged"))
        )
    return parts


def _title(found: Sequence[GateRow], about: str) -> str:
    marks = Counter(row.mark for row in found)
    ends = ", ".join(f"{marks[mark]} {mark}" for mark in TONES if marks[mark])
    return f"{count(len(found), 'gate')} {about}: {ends}"


def facts(summary: RunSummary) -> dict[str, list[tuple[str, str]]]:
    """The manifest by its first keys: path and value of each fact that applied, without folders."""
    manifest = summary.manifest
    values, idle = manifest.model_dump(exclude_defaults=True), set()
    if manifest.candidate.startswith("replay:"):
        idle.add("sampling")
    if manifest.models.judges and set(manifest.models.judges) <= {
        *RULE_JUDGES,
        BUNDLED,
    }:
        idle.add("judge_sampling")
    asked = {benchmark.kind for benchmark in summary.benchmarks.values()}
    if asked and not asked & {Kind.RECOGNITION.value, ""}:
        idle.add("multiple_choice")
    used = manifest.engines
    if (
        used is not None and not used.started and not used.attached
    ):  # no model was needed
        idle |= {"placement", "engines"}
        engines = {
            package for name in kinds.discover() for package in kinds.get(name).packages
        }
        versions = values.get("versions", {})
        values["versions"] = {
            each: versions[each] for each in versions if each not in engines
        }
    found = {
        name: list(_flat("", value))
        for name, value in values.items()
        if name not in idle
    }
    return {name: rows for name, rows in found.items() if rows}


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            shown = pathless(str(name))
            yield from _flat(f"{path} › {shown}" if path else shown, inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if value:
            yield path, pathless(", ".join(map(str, value)))
    elif value not in (None, ""):
        yield path, pathless(str(value))
