"""The figures of many runs, gate by gate, in the order in which the runs were started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from refusal_checks.gates.baseline import UNSTATED
from refusal_checks.gates.decide import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.results.manifest import known_conditions
from refusal_checks.results.many_runs import started
from refusal_checks.results.run_folder import PastRun
from refusal_checks.results.shipping import Shipping, shipping


@dataclass(frozen=True)
class Entry:
    """One run.

    Attributes:
        number: its place in time, from 0.
        when: its start in UTC; None where it is not known.
    """

    number: int
    run: PastRun
    when: datetime | None
    shipping: Shipping

    @property
    def candidate(self) -> str:
        """The candidate's name as reports show it."""
        return self.run.summary.manifest.shown or self.run.folder.path.name

    @property
    def judge(self) -> str:
        """The judge's name."""
        return self.run.summary.manifest.judge or "unknown"

    @property
    def day(self) -> str:
        """Date and time of its start."""
        return f"{self.when:%Y-%m-%d %H:%M}" if self.when else "unknown"

    @property
    def suites(self) -> list[str]:
        """Its benchmarks."""
        return sorted(self.run.summary.benchmarks)


@dataclass(frozen=True)
class Point:
    """One gate of one run."""

    entry: Entry
    verdict: Verdict


@dataclass(frozen=True)
class Trend:
    """One gate of runs that were made under the same conditions.

    Attributes:
        differs: the conditions in which it differs from other trends of the gate, by name.
        points: the oldest first, at least one.
    """

    gate: str
    differs: Mapping[str, str]
    points: Sequence[Point]

    @property
    def benchmark(self) -> str:
        """What it is a gate of."""
        return self.points[0].verdict.gate.benchmark

    @property
    def judge(self) -> str:
        """The judge of the latest run; of the others, too, but for the address of its server."""
        return self.points[-1].entry.judge


Conditions = tuple[tuple[str, str], ...]


def entries(runs: Sequence[PastRun]) -> list[Entry]:
    """The runs, the oldest first, as they are given."""
    return [Entry(n, run, started(run), shipping(run.summary)) for n, run in enumerate(runs)]


def trends(found: Sequence[Entry]) -> list[Trend]:
    """A trend for each gate and each set of conditions; gates on judging stand last."""
    series: dict[str, dict[Conditions, list[Point]]] = {}
    for entry in found:
        known = {name: _conditions(entry, name) for name in entry.run.summary.benchmarks}
        for gate, verdict in entry.run.summary.verdicts.items():
            under = known.get(verdict.gate.benchmark) or _unknown(entry)
            key = (*under, ("figure", verdict.use), ("metric", verdict.gate.metric))
            series.setdefault(gate, {}).setdefault(key, []).append(Point(entry, verdict))
    every = [
        Trend(gate, _differing(key, list(by_key)), points)
        for gate, by_key in series.items()
        for key, points in by_key.items()
    ]
    return sorted(every, key=_is_on_judging)


def _is_on_judging(trend: Trend) -> bool:
    return METRICS[trend.points[0].verdict.gate.metric].group == "judging"


def _conditions(entry: Entry, benchmark: str) -> Conditions:
    found = known_conditions(entry.run.summary.manifest, benchmark)
    return _unknown(entry) if found is None else tuple(sorted(found.items()))


def _unknown(entry: Entry) -> Conditions:
    """Conditions like no other run's: what is not known cannot be the same."""
    return (("conditions", f"not recorded by run {entry.number + 1}"),)


def _differing(key: Conditions, keys: Sequence[Conditions]) -> dict[str, str]:
    """The conditions that not all of the keys share."""
    others = [dict(each) for each in keys]
    lacking = {name for each in others for name in each.keys() - dict(key).keys()}
    return {
        name: value for name, value in key if any(each.get(name) != value for each in others)
    } | {name: UNSTATED.get(name, "none") for name in lacking}
