"""All runs below a folder, of a project or of CI artifacts, with a trend of every gate."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from refusal_checks.core.errors import DataError
from refusal_checks.core.files import is_file_name
from refusal_checks.gates.baseline import UNSTATED
from refusal_checks.reports.page.model import GateRow, RunView
from refusal_checks.results.manifest import known_conditions
from refusal_checks.results.run_folder import SUMMARY, RunFolder


class ManyRuns(NamedTuple):
    """The runs below a folder, the oldest first, and why each other summary is not shown."""

    runs: Sequence[RunView] = ()
    skipped: Mapping[Path, str] = MappingProxyType({})

    @property
    def choices(self) -> dict[str, list[str]]:
        """The values of the page's filters."""
        return {
            "candidate": sorted({run.candidate for run in self.runs}),
            "suite": sorted({name for run in self.runs for name in run.summary.benchmarks}),
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
    skipped: dict[Path, str] = {}
    seen: dict[str, Path] = {}
    for path in sorted(root.rglob(SUMMARY)):
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest in seen:
                skipped[path] = f"the same run as {seen[digest]}"
                continue
            folder = kind.of(path)
            runs.append(RunView(0, folder, folder.summary()))
            seen[digest] = path
        except OSError as fault:
            skipped[path] = f"cannot be read: {fault.strerror}"
        except DataError as fault:
            skipped[path] = str(fault).removeprefix(f"{path}: ")
    runs.sort(key=lambda run: (run.when or datetime.min.replace(tzinfo=UTC), str(run.folder.path)))
    return ManyRuns([replace(run, number=n) for n, run in enumerate(runs)], skipped)


class Trend(NamedTuple):
    """One gate of runs that were made under the same conditions.

    Attributes:
        differs: the conditions in which it differs from other trends of the gate, by name.
        rows: the gate's verdicts, the oldest first, at least one.
    """

    gate: str
    differs: Mapping[str, str]
    rows: list[GateRow]


def trends(runs: Sequence[RunView]) -> list[Trend]:
    """A trend for each gate and each set of conditions; gates on judging stand last."""
    series: dict[str, dict[tuple[tuple[str, str], ...], list[GateRow]]] = {}
    for run in runs:
        manifest, names = run.summary.manifest, run.summary.benchmarks
        known = {name: known_conditions(manifest, name) for name in names}
        # What is not known cannot be the same: conditions like no other run's.
        unknown = {"conditions": f"not recorded by run {run.number + 1}"}
        for gate, verdict in run.summary.verdicts.items():
            under = known.get(verdict.gate.benchmark) or unknown
            key = (*sorted(under.items()), ("figure", verdict.use), ("metric", verdict.gate.metric))
            row = GateRow(run, gate, verdict=verdict)
            series.setdefault(gate, {}).setdefault(key, []).append(row)
    found = []
    for gate, by_key in series.items():
        every = [dict(key) for key in by_key]
        facts = dict.fromkeys(fact for each in every for fact in each)
        differing = [fact for fact in facts if len({each.get(fact) for each in every}) > 1]
        for own, rows in zip(every, by_key.values(), strict=True):
            differs = {fact: own.get(fact, UNSTATED.get(fact, "none")) for fact in differing}
            found.append(Trend(gate, differs, rows))
    return sorted(found, key=lambda trend: trend.rows[0].is_of_judging)


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
        places = [run.folder.path / "report.html"] if type(run.folder) is RunFolder else []
        for place in (*places, report_file(run.folder, path)):  # the last one that is there
            if place.is_file():
                found[run.number] = quote(Path(os.path.relpath(place, path.parent)).as_posix())
    return found
