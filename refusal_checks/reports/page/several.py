"""Several runs: side by side, and all below a folder, with a trend of every gate."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.files import is_file_name, resolved, sha256
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.gates import score_files
from refusal_checks.gates.comparison import Earlier, compare
from refusal_checks.gates.estimate_set import EstimateSet
from refusal_checks.gates.score_files import Scores, score_prompts
from refusal_checks.metrics import METRICS, by_prompt, score_all
from refusal_checks.metrics.statistics.intervals import unpaired_difference
from refusal_checks.reports.changes import Moved, moved
from refusal_checks.reports.page.model import GateRow
from refusal_checks.reports.rows import benchmark_of
from refusal_checks.results.manifest import all_conditions
from refusal_checks.results.run_folder import SUMMARY, RunFolder, RunView

MOVED = 50  # most prompts to list that moved in one direction


class SideBySide(NamedTuple):
    """Several runs, and their gates by id: None where a run lacks one.

    A verdict has the comparison with the first run, if prompts could be paired.
    """

    runs: Sequence[RunView]
    apart: Sequence[
        Mapping[str, Sequence[str]]
    ]  # why a run is not comparable, by benchmark
    gates: Mapping[str, Sequence[GateRow | None]]

    def differences(self, number: int) -> list[str]:
        return list(
            dict.fromkeys(each for why in self.apart[number].values() for each in why)
        )

    @property
    def moves(self) -> list[tuple[GateRow, Sequence[Moved]]]:
        by_run = chain.from_iterable(zip(*self.gates.values(), strict=True))
        rows = (
            row
            for row in by_run
            if row and not (row.is_of_a_group or row.is_of_judging)
        )
        found = ((row, moved(row.verdict, "run 1")) for row in rows if row.verdict)
        return [(row, moves) for row, moves in found if moves]

    @property
    def in_common(self) -> bool:
        return any(cells[0] and any(cells[1:]) for cells in self.gates.values())


def side_by_side(past: Sequence[RunView]) -> SideBySide:
    """Compare runs with the first one; UserError if there are not two, or one is named twice."""
    if len(past) < 2:
        raise UserError(
            "name two runs or more: the first is what the others are compared with"
        )
    seen: set[Path] = set()
    for path in (each.folder.summary_file for each in past):
        if resolved(path) in seen:
            raise UserError(f"{path}: name another run; this one is named twice")
        seen.add(resolved(path))
    runs = [replace(run, number=number) for number, run in enumerate(past)]
    apart = [_apart(runs[0], run) for run in runs]
    answers = [_Answers(run) for run in runs]
    ids = dict.fromkeys(
        gate for run in runs for gate in (*run.summary.verdicts, *run.summary.errors)
    )
    order = list(dict.fromkeys(map(benchmark_of, ids)))
    gates = {
        gate: [
            _row(gate, answers[0], *each) for each in zip(answers, apart, strict=True)
        ]
        for gate in sorted(ids, key=lambda gate: order.index(benchmark_of(gate)))
    }
    return SideBySide(runs, apart, gates)


def _apart(first: RunView, run: RunView) -> dict[str, list[str]]:
    """Why a run is not comparable with the first, by benchmark that both have."""
    found = {}
    for name in first.summary.benchmarks.keys() & run.summary.benchmarks.keys():
        then, now = (
            all_conditions(each.summary.manifest, name) for each in (first, run)
        )
        found[name] = score_files.differences(then, now)
    return {
        name: why for name, why in sorted(found.items()) if why and run is not first
    }


class _Answers:
    def __init__(self, run: RunView) -> None:
        self.run = run
        self._there = set(run.folder.benchmarks)
        self.of = cache(self._of)
        self.earlier = cache(self._earlier)

    def _of(self, benchmark: str) -> list[Record]:
        return (
            list(self.run.folder.records(benchmark)) if benchmark in self._there else []
        )

    def _earlier(self, benchmark: str) -> Earlier | None:
        """The benchmark as others are compared with it; None without its records or scores."""
        records = self.of(benchmark)
        file = self.run.folder.path / score_files.FOLDER / f"{benchmark}.json"
        if not records:
            is_safe = is_file_name(
                benchmark
            )  # it comes from a file that anybody may have written
            return (
                Earlier(score_files.read(file)) if is_safe and file.is_file() else None
            )
        answers = by_prompt(records)
        texts = {
            name: {
                f"{each.sample}": each.completion.text
                for each in found
                if each.completion
            }
            for name, found in answers.items()
        }
        keys = {
            name: [f"{each.sample}" for each in found]
            for name, found in answers.items()
        }
        scores = Scores(
            benchmark=benchmark,
            kind=Kind.SAFETY,
            candidate=self.run.summary.manifest.shown,
            version="",
            started=self.run.summary.manifest.started,
            conditions={},
            figures={},
            prompts=dict(
                score_prompts(records, score_all(records), lambda p: keys[p.id])
            ),
        )
        return Earlier(scores, texts=lambda prompt, _: texts.get(prompt.id, {}))


def _row(
    gate: str, first: _Answers, now: _Answers, apart: Mapping[str, Sequence[str]]
) -> GateRow | None:
    run = now.run
    if gate in run.summary.errors:
        return GateRow(run, gate, error=run.summary.errors[gate])
    if gate not in run.summary.verdicts:
        return None
    verdict = replace(run.summary.verdicts[gate], comparison=None)
    alone = GateRow(run, gate, verdict=verdict)
    before = first.run.summary.verdicts.get(gate)
    if now is first or before is None or verdict.gate.benchmark in apart:
        return alone
    own = verdict.gate
    if own.is_on_every_group:  # its figure is that of another group in each run
        return alone
    records = [each for each in now.of(own.benchmark) if own.looks_at(each.prompt)]
    if records and (earlier := first.earlier(own.benchmark)):
        rate, whole = EstimateSet(METRICS[own.metric], records), own.group is None
        compared = compare(rate, earlier, level=verdict.level, limit=MOVED, whole=whole)
        if compared:  # the runs share prompts
            paired = replace(verdict, comparison=compared)
            return replace(alone, verdict=paired, change=compared.change)
    if (
        before.use != verdict.use
    ):  # one as judged, the other corrected for the judge's errors
        return alone
    return replace(alone, change=unpaired_difference(before.estimate, verdict.estimate))


class ManyRuns(NamedTuple):
    """The runs below a folder, the oldest first, and why each other summary is not shown."""

    runs: Sequence[RunView] = ()
    skipped: Mapping[Path, str] = MappingProxyType({})

    @property
    def choices(self) -> dict[str, list[str]]:
        return {
            "candidate": sorted({run.candidate for run in self.runs}),
            "suite": sorted(
                {name for run in self.runs for name in run.summary.benchmarks}
            ),
            "judge": sorted({run.judge for run in self.runs}),
        }


def collect(root: Path, kind: type[RunFolder] = RunFolder) -> ManyRuns:
    """Read every ``summary.json`` below a folder, without following links to folders.

    Files that are none are skipped, with the reason, and so are copies of a run, as when it was
    downloaded twice. As ``RedactedFolder`` they are read without texts.
    """
    if not root.is_dir():
        raise DataError(f"{root}: name a folder with runs; there is no such folder")
    runs: list[RunView] = []
    skipped: dict[Path, str] = {}
    seen: dict[str, Path] = {}
    for path in sorted(root.rglob(SUMMARY)):
        try:
            digest = sha256(path)
            if digest in seen:
                skipped[path] = f"the same run as {seen[digest]}"
                continue
            folder = kind.of(path)
            runs.append(RunView(folder, folder.summary()))
            seen[digest] = path
        except OSError as fault:
            skipped[path] = f"cannot be read: {fault.strerror}"
        except DataError as fault:
            skipped[path] = str(fault).removeprefix(f"{path}: ")
    runs.sort(
        key=lambda run: (
            run.when or datetime.min.replace(tzinfo=UTC),
            str(run.folder.path),
        )
    )
    return ManyRuns([replace(run, number=n) for n, run in enumerate(runs)], skipped)


class Trend(NamedTuple):
    """One gate of runs that were made under the same conditions."""

    gate: str
    differs: Mapping[
        str, str
    ]  # conditions in which other trends of the gate differ, by name
    rows: Sequence[GateRow]  # the oldest first, at least one


def trends(runs: Sequence[RunView]) -> list[Trend]:
    series: dict[str, dict[tuple[tuple[str, str], ...], list[GateRow]]] = {}
    for run in runs:
        manifest, names = run.summary.manifest, run.summary.benchmarks
        known = {name: all_conditions(manifest, name) for name in names}
        for gate, verdict in run.summary.verdicts.items():
            under = known[verdict.gate.benchmark].items()
            key = (
                *sorted(under),
                ("figure", verdict.use),
                ("metric", verdict.gate.metric),
            )
            row = GateRow(run, gate, verdict=verdict)
            series.setdefault(gate, {}).setdefault(key, []).append(row)
    found = []
    for gate, by_key in series.items():
        every = [dict(key) for key in by_key]
        facts = dict.fromkeys(fact for each in every for fact in each)
        differing = [
            fact for fact in facts if len({each.get(fact) for each in every}) > 1
        ]
        for own, rows in zip(every, by_key.values(), strict=True):
            differs = {fact: own.get(fact, "none") for fact in differing}
            found.append(Trend(gate, differs, rows))
    return sorted(found, key=lambda trend: trend.rows[0].is_of_judging)


def report_file(run: RunFolder, path: Path) -> Path:
    """Where a run's report is written for the page; another place if it shows no texts."""
    named = run.path.name if is_file_name(run.path.name) else "run"
    digest = hashlib.sha256(
        f"{type(run).__name__} {run.path.absolute()}".encode()
    ).hexdigest()[:8]
    return path.parent / f"{path.stem}-reports" / f"{named}-{digest}.html"


def links(runs: Sequence[RunView], path: Path) -> Mapping[int, str]:
    """The address of each run's report from the page, by number; the one beside the page if there.

    ``report.html`` in a run's folder may show texts: it is not offered where none are to be shown.
    """
    found = {}
    for run in runs:
        places = (
            [run.folder.path / "report.html"] if type(run.folder) is RunFolder else []
        )
        for place in (
            *places,
            report_file(run.folder, path),
        ):  # the last one that is there
            if place.is_file():
                found[run.number] = quote(
                    Path(os.path.relpath(place, path.parent)).as_posix()
                )
    return found
