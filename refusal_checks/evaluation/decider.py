"""Decide the gates of a complete benchmark from its records, baseline and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.evaluation.gated import GatedBenchmark
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules, decide_all
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.labels import HumanLabels
from refusal_checks.results.redact import Redaction
from refusal_checks.results.summary import RunSummary

Decided = Mapping[str, Verdict | EvaluationError]
"""Verdicts of gates, or why there is none, by gate id."""

Records = Sequence[Record]


@dataclass(frozen=True)
class Decider:
    """Decides gates; publishing the outcomes is left to ``Publisher``.

    Attributes:
        earlier: the baseline of each benchmark that has one.
        summary: receives what people say of the answers.
    """

    benchmarks: Mapping[str, GatedBenchmark]
    rules: Rules
    earlier: Mapping[str, Earlier]
    labels: HumanLabels | None
    summary: RunSummary
    redaction: Redaction

    def decide(self, name: str, records: Records) -> Decided:
        """Return the outcomes of a complete benchmark's gates."""
        benchmark = self.benchmarks[name]
        records = self.redaction.judged(records)
        if self.labels:
            self.summary.labels[name] = self.labels.of(name, records)
        earlier = self.earlier.get(name)
        return decide_all(benchmark.gates, records, self.rules, earlier)

    def undecided(self, name: str, why: str) -> Decided:
        """Say why a benchmark has no outcome."""
        return dict.fromkeys(self.benchmarks[name].ids, EvaluationError(why))
