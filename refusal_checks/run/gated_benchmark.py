"""The benchmarks of a run, each with its prompts, its judges, and the gates on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.prompts import Prompt
from refusal_checks.gates.gate import Gate, measured_id
from refusal_checks.judges import kind_of
from refusal_checks.judges.judge import Judge, JudgeKind
from refusal_checks.run.panels import method_of
from refusal_checks.run.plan import Judges, Plan
from refusal_checks.trust.check_sets import has_check
from refusal_checks.trust.floors import JudgeCheck


@dataclass(frozen=True)
class GatedBenchmark:
    """A benchmark of a run, its prompts, its judges, and the gates on it."""

    definition: Benchmark
    prompts: Sequence[Prompt]
    judges: tuple[Judge, ...]
    gates: tuple[Gate, ...]

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def ids(self) -> tuple[str, ...]:
        """What it decides: its gates, or else its measurement."""
        return tuple(gate.id for gate in self.gates) or (measured_id(self.name),)

    @property
    def kind(self) -> JudgeKind:
        return kind_of(self.definition)

    @property
    def size(self) -> int:
        """Number of prompts."""
        return len(self.prompts)

    def check(self, of_all: JudgeCheck | None) -> JudgeCheck | None:
        """The check of this benchmark's judges of refusal."""
        if of_all is None or not has_check(self.kind):
            return None
        return of_all.of(method_of(self.kind))


def gated_benchmarks(
    gates: Sequence[Gate],
    catalogue: Mapping[str, Benchmark],
    plan: Plan,
    judges: Judges,
) -> dict[str, GatedBenchmark]:
    """All benchmarks that a run evaluates, by name."""
    return {
        name: GatedBenchmark(
            definition=catalogue[name],
            prompts=plan[name],
            judges=judges[name],
            gates=tuple(gate for gate in gates if gate.benchmark == name),
        )
        for name in plan
    }
