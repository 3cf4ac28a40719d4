"""Decide the gates of a complete benchmark from its records, baseline and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.errors import EvaluationError, LabelError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary
from refusal_checks.evaluation.gated import GatedBenchmark
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import decide_all
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.label_checks import require_agreement
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
        rules: for all gates, without human labels.
        earlier: the baseline of each benchmark that has one.
        summary: holds the check of the judges; receives notes on what verdicts rest on.
        this_run: name of the run and its candidate in messages.
    """

    benchmarks: Mapping[str, GatedBenchmark]
    rules: Rules
    earlier: Mapping[str, Earlier]
    labels: HumanLabels | None
    summary: RunSummary
    redaction: Redaction
    this_run: str

    def decide(self, name: str, records: Records) -> Decided:
        """Return the outcomes of a complete benchmark's gates."""
        benchmark = self.benchmarks[name]
        records = self.redaction.judged(records)
        try:
            rules = self._rules_of(benchmark, records)
        except LabelError as fault:
            self.summary.mislabelled += benchmark.ids
            return self.undecided(name, str(fault))
        earlier = self.earlier.get(name)
        return decide_all(benchmark.gates, records, rules, earlier)

    def undecided(self, name: str, why: str) -> Decided:
        """Say why a benchmark has no outcome."""
        return dict.fromkeys(self.benchmarks[name].ids, EvaluationError(why))

    def _rules_of(self, benchmark: GatedBenchmark, records: Records) -> Rules:
        """The rules for a benchmark, with human labels of its answers.

        Raises:
            LabelError: the labels belong to other answers, or contradict most verdicts.
        """
        evidence = self.rules.evidence
        if self.labels:
            labels = self.labels.find(benchmark.name, records, self.this_run)
            evidence = replace(evidence, labels=labels)
            checks = labels.checks(records)
            require_agreement(self.labels.name, checks)
            if checks:
                self.summary.label_checks[benchmark.name] = checks
            is_judged = any(isinstance(record.judgement, Binary) for record in records)
            if is_judged and not self.labels.of_refusals_only:
                basis = "no human labels, so the judge's figures decide"
                if labels.draws:
                    basis = labels.of(records).in_words
                self.summary.note(f"{benchmark.name}: {basis}")
        return replace(self.rules, evidence=evidence)
