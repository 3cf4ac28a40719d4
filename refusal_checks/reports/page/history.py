"""All runs below a folder, of a project or of CI artifacts, with a trend of every gate."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from refusal_checks.core.errors import DataError
from refusal_checks.core.files import is_file_name
from refusal_checks.gates.baseline import UNSTATED
from refusal_checks.reports.page.model import GateRow, RunView
from refusal_checks.results.manifest import known_conditions
from refusal_checks.results.run_folder import SUMMARY, RunFolder


@dataclass(frozen=True)
class Skipped:
    """A summary that is not shown, and why."""

    path: Path
    why: str


@dataclass(frozen=True)
class ManyRuns:
    """The runs below a folder, the oldest first, and what was left out."""

    runs: tuple[RunView, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def choices(self) -> dict[str, list[str]]:
        """The values of the page's filters."""
        return {
            "candidate": sorted({run.candidate for run in self.runs}),
            "suite": sorted({name for run in self.runs for name in run.suites}),
            "judge": sorted({run.judge for run in self.runs}),
        }


def collect(root: Path, kind: type[RunFolder] = RunFolder) -> ManyRuns:
    """Read every ``summary.json`` below a folder; files that are none are skipped, with the reason.

    A copy of a run, as when it was downloaded twice, is skipped too.

    Args:
        root: searched with all folders in it; links to folders are not followed.
        kind: ``RedactedFolder`` to read them without texts.

    Raises:
        DataError: there is no such folder.
    """
    if not root.is_dir():
        raise DataError(f"{root}: name a folder with runs; there is no such folder")
    runs: list[RunView] = []
    skipped: list[Skipped] = []
    seen: dict[str, Path] = {}
    for path in sorted(root.rglob(SUMMARY)):
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest in seen:
                skipped.append(Skipped(path, f"the same run as {seen[digest]}"))
                continue
            folder = kind.of(path)
            runs.append(RunView(0, folder, folder.summary()))
            seen[digest] = path
        except OSError as fault:
            skipped.append(Skipped(path, f"cannot be read: {fault.strerror}"))
        except DataError as fault:
            skipped.append(Skipped(path, str(fault).removeprefix(f"{path}: ")))
    runs.sort(key=lambda run: (run.when or datetime.min.replace(tzinfo=UTC), str(run.folder.path)))
    return ManyRuns(tuple(replace(run, number=n) for n, run in enumerate(runs)), tuple(skipped))


@dataclass(frozen=True)
class Trend:
    """One gate of runs that were made under the same conditions.

    Attributes:
        differs: the conditions in which it differs from other trends of the gate, by name.
        rows: the gate's verdicts, the oldest first, at least one.
    """

    gate: str
    differs: Mapping[str, str]
    rows: Sequence[GateRow]

    @property
    def benchmark(self) -> str:
        """What it is a gate of."""
        return self.rows[0].benchmark

    @property
    def judge(self) -> str:
        """The judge of the latest run; of the others, too, but for the address of its server."""
        return self.rows[-1].run.judge


Conditions = tuple[tuple[str, str], ...]


def trends(runs: Sequence[RunView]) -> list[Trend]:
    """A trend for each gate and each set of conditions; gates on judging stand last."""
    series: dict[str, dict[Conditions, list[GateRow]]] = {}
    for run in runs:
        # What is not known cannot be the same: conditions like no other run's.
        unknown: Conditions = (("conditions", f"not recorded by run {run.number + 1}"),)
        known: dict[str, Conditions] = {}
        for name in run.summary.benchmarks:
            found = known_conditions(run.summary.manifest, name)
            known[name] = unknown if found is None else tuple(sorted(found.items()))
        for gate, verdict in run.summary.verdicts.items():
            under = known.get(verdict.gate.benchmark) or unknown
            key = (*under, ("figure", verdict.use), ("metric", verdict.gate.metric))
            row = GateRow(run, gate, verdict=verdict, gate=verdict.gate)
            series.setdefault(gate, {}).setdefault(key, []).append(row)
    every = [
        Trend(gate, _differing(key, list(by_key)), rows)
        for gate, by_key in series.items()
        for key, rows in by_key.items()
    ]
    return sorted(every, key=lambda trend: trend.rows[0].is_of_judging)


def _differing(key: Conditions, keys: Sequence[Conditions]) -> dict[str, str]:
    """The conditions that not all of the keys share."""
    own, others = dict(key), [dict(each) for each in keys]
    names = dict.fromkeys([*own, *(name for each in others for name in each)])
    return {
        name: own.get(name, UNSTATED.get(name, "none"))
        for name in names
        if any(each.get(name) != own.get(name) for each in others)
    }


def report_file(run: RunFolder, path: Path) -> Path:
    """Where the report of a run lies that is written for the page, apart if it shows no texts."""
    named = run.path.name if is_file_name(run.path.name) else "run"
    digest = hashlib.sha256(f"{type(run).__name__} {run.path.absolute()}".encode()).hexdigest()[:8]
    return path.parent / f"{path.stem}-reports" / f"{named}-{digest}.html"


def links(runs: Sequence[RunView], path: Path) -> Mapping[int, str]:
    """The address of each run's report from the page, by number.

    It is the page that was written for the run, else ``report.html`` in its folder; that may show
    texts, so it is not offered where none are to be shown.
    """
    found = {}
    for run in runs:
        places = [report_file(run.folder, path)]
        if type(run.folder) is RunFolder:
            places.append(run.folder.path / "report.html")
        if there := next((place for place in places if place.is_file()), None):
            found[run.number] = quote(Path(os.path.relpath(there, path.parent)).as_posix())
    return found
