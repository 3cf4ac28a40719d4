"""Several runs side by side: their gates, and the changes since the first run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from refusal_checks.core.errors import UserError
from refusal_checks.core.files import is_file_name, resolved
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.gates import score_files
from refusal_checks.gates.comparison import Earlier, compare
from refusal_checks.gates.estimate_set import EstimateSet
from refusal_checks.gates.score_files import Scores, score_prompts
from refusal_checks.metrics import METRICS, by_prompt, score_all
from refusal_checks.metrics.statistics.intervals import unpaired_difference
from refusal_checks.reports.changes import Moved, moved
from refusal_checks.reports.page.gate_rows import GateRow
from refusal_checks.reports.rows import benchmark_of
from refusal_checks.results.manifest import all_conditions
from refusal_checks.results.run_folder import RunView

MOVED = 50
"""List at most so many prompts that moved in one direction."""


class SideBySide(NamedTuple):
    """Several runs, and their gates.

    Attributes:
        apart: for each run, why it is not comparable with the first, by benchmark.
        gates: a row for each run, by gate id; None if a run lacks the gate. A verdict contains the
        comparison with the first run, if prompts could be paired.
    """

    runs: Sequence[RunView]
    apart: Sequence[Mapping[str, Sequence[str]]]
    gates: Mapping[str, Sequence[GateRow | None]]

    def differences(self, number: int) -> list[str]:
        """Why a run is not comparable with the first, each reason once."""
        reasons: dict[str, None] = {}
        for why in self.apart[number].values():
            reasons.update(dict.fromkeys(why))
        return list(reasons)

    @property
    def moves(self) -> list[tuple[GateRow, Sequence[Moved]]]:
        """The prompts that moved, by run and then by gate on a whole benchmark."""
        moves_by_row: list[tuple[GateRow, Sequence[Moved]]] = []
        for number in range(len(self.runs)):
            for rows in self.gates.values():
                row = rows[number]
                if not row or not row.verdict or row.is_of_a_group or row.is_of_judging:
                    continue
                moves = moved(row.verdict, "run 1")
                if moves:
                    moves_by_row.append((row, moves))
        return moves_by_row

    @property
    def in_common(self) -> bool:
        """True if a gate of the first run is also a gate of another one."""
        return any(rows[0] and any(rows[1:]) for rows in self.gates.values())


def side_by_side(past: Sequence[RunView]) -> SideBySide:
    """Compare runs with the first one; UserError if there are not two, or one is named twice."""
    if len(past) < 2:
        raise UserError(
            "name two runs or more: the first is what the others are compared with"
        )
    _require_different(past)
    runs = [replace(run, number=number) for number, run in enumerate(past)]
    apart = [_apart(runs[0], run) for run in runs]
    answers = [_Answers(run) for run in runs]
    gates = {}
    for gate in _gate_ids(runs):
        gates[gate] = [
            _row(gate, answers[0], own, why)
            for own, why in zip(answers, apart, strict=True)
        ]
    return SideBySide(runs, apart, gates)


def _require_different(runs: Sequence[RunView]) -> None:
    named: set[Path] = set()
    for run in runs:
        path = resolved(run.folder.summary_file)
        if path in named:
            raise UserError(
                f"{run.folder.summary_file}: name another run; this one is named twice"
            )
        named.add(path)


def _gate_ids(runs: Sequence[RunView]) -> list[str]:
    """Ids of all runs' gates, grouped by benchmark."""
    ids_by_benchmark: dict[str, dict[str, None]] = {}
    for run in runs:
        for gate in (*run.summary.verdicts, *run.summary.errors):
            ids_by_benchmark.setdefault(benchmark_of(gate), {})[gate] = None
    return list(chain.from_iterable(ids_by_benchmark.values()))


def _apart(first: RunView, run: RunView) -> dict[str, list[str]]:
    """Why a run is not comparable with the first, by benchmark in both."""
    reasons: dict[str, list[str]] = {}
    if run is first:
        return reasons
    names = first.summary.benchmarks.keys() & run.summary.benchmarks.keys()
    for name in sorted(names):
        then = all_conditions(first.summary.manifest, name)
        now = all_conditions(run.summary.manifest, name)
        differences = score_files.differences(then, now)
        if differences:
            reasons[name] = differences
    return reasons


class _Answers:
    """Reads the records of a run by benchmark, each file once."""

    def __init__(self, run: RunView) -> None:
        self.run = run
        self._there = set(run.folder.benchmarks)
        self.of = cache(self._of)
        self.earlier = cache(self._earlier)

    def _of(self, benchmark: str) -> list[Record]:
        if benchmark not in self._there:
            return []
        return list(self.run.folder.records(benchmark))

    def _earlier(self, benchmark: str) -> Earlier | None:
        """The benchmark as a baseline for other runs; None without records or scores."""
        records = self.of(benchmark)
        if not records:
            return self._kept_scores(benchmark)
        # A sample's number stands for the key that a store would have.
        texts: dict[str, dict[str, str]] = {}
        for record in records:
            by_sample = texts.setdefault(record.prompt.id, {})
            if record.completion:
                by_sample[str(record.sample)] = record.completion.text
        keys = {
            prompt: [str(record.sample) for record in answers]
            for prompt, answers in by_prompt(records).items()
        }
        manifest = self.run.summary.manifest
        scores = Scores(
            benchmark=benchmark,
            kind=Kind.SAFETY,
            candidate=manifest.shown,
            version="",
            started=manifest.started,
            conditions={},
            figures={},
            prompts=dict(
                score_prompts(
                    records, score_all(records), lambda prompt: keys[prompt.id]
                )
            ),
        )
        return Earlier(scores, texts=lambda prompt, _: texts.get(prompt.id, {}))

    def _kept_scores(self, benchmark: str) -> Earlier | None:
        """Read the scores, without texts, that a run keeps for baselines."""
        # The name comes from a summary that anybody may have written.
        if not is_file_name(benchmark):
            return None
        file = self.run.folder.path / score_files.FOLDER / f"{benchmark}.json"
        return Earlier(score_files.read(file)) if file.is_file() else None


def _row(
    gate_id: str, first: _Answers, now: _Answers, apart: Mapping[str, Sequence[str]]
) -> GateRow | None:
    """A gate of a run, with its change since the first run if the two are comparable."""
    run = now.run
    if gate_id in run.summary.errors:
        return GateRow(run, gate_id, error=run.summary.errors[gate_id])
    if gate_id not in run.summary.verdicts:
        return None
    verdict = replace(run.summary.verdicts[gate_id], comparison=None)
    gate = verdict.gate
    alone = GateRow(run, gate_id, verdict=verdict)
    before = first.run.summary.verdicts.get(gate_id)
    if now is first or before is None or gate.benchmark in apart:
        return alone
    if gate.is_on_every_group:  # its figure is that of another group in each run
        return alone

    records = [
        record for record in now.of(gate.benchmark) if gate.looks_at(record.prompt)
    ]
    earlier = first.earlier(gate.benchmark) if records else None
    if earlier:
        compared = compare(
            EstimateSet(METRICS[gate.metric], records),
            earlier,
            level=verdict.level,
            limit=MOVED,
            whole=gate.group is None,
        )
        if compared:  # the runs share prompts
            paired = replace(verdict, comparison=compared)
            return replace(alone, verdict=paired, change=compared.change)
    if before.use != verdict.use:
        return alone  # one is as judged, the other by people's labels
    change = unpaired_difference(before.estimate, verdict.estimate)
    return replace(alone, change=change)
