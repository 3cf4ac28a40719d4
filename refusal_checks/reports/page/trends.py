"""All runs below a folder, with a trend of every gate."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from refusal_checks.core.errors import DataError
from refusal_checks.core.files import is_file_name, sha256
from refusal_checks.reports.page.gate_rows import GateRow
from refusal_checks.results.manifest import all_conditions
from refusal_checks.results.run_folder import SUMMARY, RunFolder, RunView


class ManyRuns(NamedTuple):
    """The runs below a folder, oldest first, and why other summaries are not shown."""

    runs: Sequence[RunView] = ()
    skipped: Mapping[Path, str] = MappingProxyType({})

    @property
    def choices(self) -> dict[str, list[str]]:
        """What the page's filters offer."""
        suites: set[str] = set()
        for run in self.runs:
            suites.update(run.summary.benchmarks)
        return {
            "candidate": sorted({run.candidate for run in self.runs}),
            "suite": sorted(suites),
            "judge": sorted({run.judge for run in self.runs}),
        }


def collect(root: Path, kind: type[RunFolder] = RunFolder) -> ManyRuns:
    """Read every ``summary.json`` below a folder, without following symbolic links to folders.

    Skips files that are no summaries, and copies of a run, such as from a second download, and says
    why. ``RedactedFolder`` reads them without texts.
    """
    if not root.is_dir():
        raise DataError(f"{root}: name a folder with runs; there is no such folder")
    runs: list[RunView] = []
    skipped: dict[Path, str] = {}
    first_by_digest: dict[str, Path] = {}
    for path in sorted(root.rglob(SUMMARY)):
        try:
            digest = sha256(path)
            if digest in first_by_digest:
                skipped[path] = f"the same run as {first_by_digest[digest]}"
                continue
            folder = kind.of(path)
            folder.require_whole(by_size=True)
            runs.append(RunView(folder, folder.summary()))
            first_by_digest[digest] = path
        except OSError as fault:
            skipped[path] = f"cannot be read: {fault.strerror}"
        except DataError as fault:
            skipped[path] = str(fault).removeprefix(f"{path}: ")
    runs.sort(key=_age)
    numbered = [replace(run, number=number) for number, run in enumerate(runs)]
    return ManyRuns(numbered, skipped)


def _age(run: RunView) -> tuple[datetime, str]:
    """Sort key by start time; runs without a time come first."""
    return run.when or datetime.min.replace(tzinfo=UTC), str(run.folder.path)


class Trend(NamedTuple):
    """One gate over runs made under the same conditions.

    Attributes:
        differs: conditions that differ from those of the gate's other trends, by name.
        rows: oldest first, at least one.
    """

    gate: str
    differs: Mapping[str, str]
    rows: Sequence[GateRow]


Conditions = tuple[tuple[str, str], ...]


def trends(runs: Sequence[RunView]) -> list[Trend]:
    """The trends of all gates; those on how answers were judged come last."""
    rows_by_gate: dict[str, dict[Conditions, list[GateRow]]] = {}
    for run in runs:
        summary = run.summary
        conditions_by_benchmark = {
            name: all_conditions(summary.manifest, name) for name in summary.benchmarks
        }
        for gate, verdict in summary.verdicts.items():
            row = GateRow(run, gate, verdict=verdict)
            conditions = conditions_by_benchmark[verdict.gate.benchmark]
            key = (
                *sorted(conditions.items()),
                ("figure", verdict.use),
                ("metric", verdict.gate.metric),
            )
            rows_by_gate.setdefault(gate, {}).setdefault(key, []).append(row)
    every = []
    for gate, rows_by_conditions in rows_by_gate.items():
        every += _of_gate(gate, rows_by_conditions)
    return sorted(every, key=lambda trend: trend.rows[0].is_of_judging)


def _of_gate(
    gate: str, rows_by_conditions: Mapping[Conditions, Sequence[GateRow]]
) -> list[Trend]:
    """A trend for each set of conditions, with those in which it differs from the others."""
    every = [dict(conditions) for conditions in rows_by_conditions]
    differing = []
    for name in dict.fromkeys(chain.from_iterable(every)):
        values = {conditions.get(name) for conditions in every}
        if len(values) > 1:
            differing.append(name)
    trends = []
    for conditions, rows in zip(every, rows_by_conditions.values(), strict=True):
        differs = {name: conditions.get(name, "none") for name in differing}
        trends.append(Trend(gate, differs, rows))
    return trends


def report_file(run: RunFolder, path: Path) -> Path:
    """Path of a run's report for the page; a redacted report has a path of its own."""
    name = run.path.name if is_file_name(run.path.name) else "run"
    named = f"{type(run).__name__} {run.path.absolute()}"
    digest = hashlib.sha256(named.encode()).hexdigest()[:8]
    return path.parent / f"{path.stem}-reports" / f"{name}-{digest}.html"


def links(runs: Sequence[RunView], path: Path) -> Mapping[int, str]:
    """Link from the page to each run's report, by number; one beside the page if it exists.

    ``report.html`` in a run's folder may show texts, so it is not linked from a redacted page.
    """
    addresses = {}
    for run in runs:
        places = [report_file(run.folder, path)]
        if type(run.folder) is RunFolder:
            places.append(run.folder.path / "report.html")
        for place in places:
            if place.is_file():
                relative = Path(os.path.relpath(place, path.parent))
                addresses[run.number] = quote(relative.as_posix())
                break
    return addresses
