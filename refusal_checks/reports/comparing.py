"""Several runs side by side: their gates, each with its change since the first run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.errors import UserError
from refusal_checks.core.files import is_file_name
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.gates import baseline, compare
from refusal_checks.gates.baseline import Scores, score_prompts
from refusal_checks.gates.compare import Comparison, Earlier
from refusal_checks.gates.decide import Verdict
from refusal_checks.metrics import METRICS, by_prompt, score_all
from refusal_checks.metrics.statistics.intervals import Estimate, unpaired_difference
from refusal_checks.reports.explain import Moved, moved
from refusal_checks.reports.rows import benchmark_of, candidate_names
from refusal_checks.results.manifest import known_conditions
from refusal_checks.results.run_folder import PastRun
from refusal_checks.results.shipping import Shipping, shipping

MOVED = 50
"""Most prompts to list that moved in one direction."""

_UNKNOWN = "conditions that one of the runs did not record"


@dataclass(frozen=True)
class Column:
    """One of the runs.

    Attributes:
        name: a short one of its candidate, unlike all others.
        apart: why it is not comparable with the first run, by benchmark.
    """

    name: str
    run: PastRun
    shipping: Shipping
    apart: Mapping[str, Sequence[str]]

    @property
    def title(self) -> str:
        """The candidate's name as reports show it."""
        return self.run.summary.manifest.shown or self.run.folder.path.name

    @property
    def differences(self) -> list[str]:
        """Why it is not comparable, each reason once."""
        return list(dict.fromkeys(each for several in self.apart.values() for each in several))


@dataclass(frozen=True)
class Cell:
    """One gate of one run.

    Attributes:
        verdict: with the comparison with the first run, if prompts could be paired; None if the
            gate could not be evaluated.
        error: why it has no verdict.
        change: of the figure since the first run; None for that run and for others that cannot be
            compared with it.
    """

    verdict: Verdict | None
    error: str = ""
    change: Estimate | None = None

    @property
    def is_paired(self) -> bool:
        """True if the change is that of single prompts."""
        return bool(self.verdict and self.verdict.comparison)


@dataclass(frozen=True)
class Line:
    """One gate: a cell per run, None where the run does not have it."""

    gate: str
    cells: Sequence[Cell | None]


@dataclass(frozen=True)
class Moves:
    """The prompts that moved since the first run in one gate of another.

    Attributes:
        number: of the run, counted from 1.
        moved: by direction.
    """

    number: int
    gate: str
    moved: Sequence[Moved]


@dataclass(frozen=True)
class SideBySide:
    """The runs, and their gates in the order in which the runs have them."""

    columns: Sequence[Column]
    lines: Sequence[Line]

    @property
    def moves(self) -> list[Moves]:
        """Where prompts moved, on gates of whole benchmarks that say something of the candidate."""
        return [
            found
            for number in range(1, len(self.columns))
            for line in self.lines
            if (cell := line.cells[number]) and (found := _moves(number + 1, line.gate, cell))
        ]

    @property
    def in_common(self) -> bool:
        """True if a gate of the first run is another one's, too."""
        return any(line.cells[0] and any(line.cells[1:]) for line in self.lines)


def side_by_side(runs: Sequence[PastRun]) -> SideBySide:
    """Compare runs with the first one.

    Raises:
        UserError: there are fewer than two, or one is named twice.
        DataError: a run's records are damaged.
    """
    _require_several(runs)
    first = runs[0]
    names = candidate_names([run.summary for run in runs])
    columns = [
        Column(name, run, shipping(run.summary), _apart(first, run))
        for name, run in zip(names, runs, strict=True)
    ]
    answers = [_Answers(run) for run in runs]
    ids = dict.fromkeys(
        gate for run in runs for gate in (*run.summary.verdicts, *run.summary.errors)
    )
    lines = [
        Line(
            gate,
            [
                _cell(gate, answers[0], at, column)
                for at, column in zip(answers, columns, strict=True)
            ],
        )
        for gate in _by_benchmark(ids)
    ]
    return SideBySide(columns, lines)


def _require_several(runs: Sequence[PastRun]) -> None:
    if len(runs) < 2:
        raise UserError("name two runs or more: the first is what the others are compared with")
    seen: dict[str, PastRun] = {}
    for run in runs:
        path = run.folder.summary_file
        if str(path.resolve()) in seen:
            raise UserError(f"{path}: name another run; this one is named twice")
        seen[str(path.resolve())] = run


def _by_benchmark(ids: Iterable[str]) -> list[str]:
    """Gates of one benchmark together, in the order in which they come first."""
    order = {name: place for place, name in enumerate(dict.fromkeys(map(benchmark_of, ids)))}
    return sorted(ids, key=lambda gate: order[benchmark_of(gate)])


def _apart(first: PastRun, run: PastRun) -> dict[str, list[str]]:
    """Why a run is not comparable with the first, by benchmark that both have."""
    found = {}
    for name in first.summary.benchmarks.keys() & run.summary.benchmarks.keys():
        then, now = (known_conditions(each.summary.manifest, name) for each in (first, run))
        found[name] = [_UNKNOWN] if then is None or now is None else baseline.changed(then, now)
    return {name: why for name, why in sorted(found.items()) if why and run is not first}


class _Answers:
    """The records of a run, as far as they are there; each benchmark is read once."""

    def __init__(self, run: PastRun) -> None:
        self.run = run
        self._there = set(run.folder.benchmarks)
        self._read: dict[str, list[Record]] = {}
        self._earlier: dict[str, Earlier | None] = {}

    def of(self, benchmark: str) -> list[Record]:
        """A benchmark's records; none if they are not there."""
        if benchmark not in self._read:
            is_there = benchmark in self._there
            self._read[benchmark] = list(self.run.folder.records(benchmark)) if is_there else []
        return self._read[benchmark]

    def earlier(self, benchmark: str) -> Earlier | None:
        """The benchmark as others are compared with it; None without its records or scores."""
        if benchmark not in self._earlier:
            self._earlier[benchmark] = self._scored(benchmark)
        return self._earlier[benchmark]

    def _scored(self, benchmark: str) -> Earlier | None:
        records = self.of(benchmark)
        file = self.run.folder.path / baseline.FOLDER / f"{benchmark}.json"
        if not records:
            is_safe = is_file_name(benchmark)  # it comes from a file that anybody may have written
            return Earlier(baseline.read(file)) if is_safe and file.is_file() else None
        answers = by_prompt(records)
        keys = {name: [f"{each.sample}" for each in found] for name, found in answers.items()}
        manifest = self.run.summary.manifest
        scores = Scores(
            benchmark=benchmark,
            kind=Kind.SAFETY,
            candidate=manifest.shown,
            version="",
            started=manifest.started,
            conditions={},
            figures={},
            prompts=score_prompts(records, score_all(records), keys),
        )
        return Earlier(scores, texts=lambda prompt, _: _texts(answers.get(prompt.id, ())))


def _texts(answers: Iterable[Record]) -> dict[str, str]:
    """An earlier prompt's answers by the number of their sample."""
    return {str(each.sample): each.completion.text for each in answers if each.completion}


def _cell(gate: str, first: _Answers, now: _Answers, column: Column) -> Cell | None:
    summary = column.run.summary
    if gate in summary.errors:
        return Cell(None, summary.errors[gate])
    verdict = summary.verdicts.get(gate)
    if verdict is None:
        return None
    verdict = replace(verdict, comparison=None)
    before = first.run.summary.verdicts.get(gate)
    if now is first or before is None or verdict.gate.benchmark in column.apart:
        return Cell(verdict)
    compared = _paired(verdict, first, now)
    if compared:
        return Cell(replace(verdict, comparison=compared), change=compared.change)
    if before.use != verdict.use:  # one as judged, the other corrected for the judge's errors
        return Cell(verdict)
    return Cell(verdict, change=unpaired_difference(before.estimate, verdict.estimate))


def _paired(verdict: Verdict, first: _Answers, now: _Answers) -> Comparison | None:
    """The change prompt by prompt; None without prompts that both runs have."""
    gate = verdict.gate
    records = [each for each in now.of(gate.benchmark) if gate.concerns(each.prompt.groups)]
    earlier = first.earlier(gate.benchmark) if records else None
    if earlier is None:
        return None
    return compare.compare(
        METRICS[gate.metric],
        records,
        earlier,
        level=verdict.level,
        limit=MOVED,
        whole=gate.group is None,
    )


def _moves(number: int, gate: str, cell: Cell) -> Moves | None:
    verdict = cell.verdict
    if verdict is None or verdict.gate.group or METRICS[verdict.gate.metric].group == "judging":
        return None
    found = moved(verdict, since="run 1")
    return Moves(number, gate, found) if found else None
