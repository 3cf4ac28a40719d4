"""Benchmarks that stand for all attacks on another: decided from the answers under each attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.metrics.base import nothing_valid
from refusal_checks.metrics.worst_case import worst_of
from refusal_checks.run import publish
from refusal_checks.run.prepare import Prepared

Records = Sequence[Record]


class Pools:
    """Publishes such a benchmark once the answers under all of its attacks are there."""

    def __init__(self, run: Prepared) -> None:
        self._run = run
        about = {gate.benchmark: run.options.benchmarks[gate.benchmark] for gate in run.gates}
        self._under = {name: one.under for name, one in about.items() if one.under}
        self._seen: dict[str, tuple[Records, ...]] = {}
        self._decided: set[str] = set()

    def add(self, benchmark: str, records: Records, repeats: Sequence[Records]) -> None:
        """Take the answers of a benchmark, with the judges' repeated verdicts."""
        if not any(benchmark in under for under in self._under.values()):
            return  # it need not be kept until the run ends
        self._seen[benchmark] = (records, *repeats)
        for name, under in self._under.items():
            if name not in self._decided and self._seen.keys() >= set(under):
                self._publish(name, {one: self._seen[one] for one in under})

    def _publish(self, name: str, seen: Mapping[str, tuple[Records, ...]]) -> None:
        for under, (records, *_) in seen.items():
            if all(isinstance(record.judgement, Invalid) for record in records):
                self.undecided(under, f"{under}: {nothing_valid(records)}")
                return
        attacks = {one: self._run.options.benchmarks[one].attack for one in seen}
        records, *repeats = (
            worst_of({attacks[one]: sets[number] for one, sets in seen.items()})
            for number in range(len(next(iter(seen.values()))))
        )
        publish.benchmark(self._run, name, records, repeats)
        self._decided.add(name)

    def undecided(self, benchmark: str, why: str) -> None:
        """Publish that a benchmark has no verdicts, for those that need its answers."""
        for name, under in self._under.items():
            if benchmark in under and name not in self._decided:
                publish.undecided(self._run, name, why)
                self._decided.add(name)
