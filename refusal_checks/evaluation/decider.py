"""Decide the gates of a complete benchmark from its records, baseline and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.errors import EvaluationError, LabelError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Invalid
from refusal_checks.evaluation.gated import GatedBenchmark
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import decide_all
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.label_checks import require_agreement
from refusal_checks.judges.trust.labels import HumanLabels
from refusal_checks.metrics.metric import nothing_valid
from refusal_checks.metrics.worst_case import worst_of
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
            self.summary.mislabelled += [gate.id for gate in benchmark.gates]
            return self.undecided(name, str(fault))
        earlier = self.earlier.get(name)
        return decide_all(benchmark.gates, records, rules, earlier)

    def undecided(self, name: str, why: str) -> Decided:
        """Return the outcomes of a benchmark's gates when no verdict is possible."""
        gates = self.benchmarks[name].gates
        return {gate.id: EvaluationError(why) for gate in gates}

    def _rules_of(self, benchmark: GatedBenchmark, records: Records) -> Rules:
        """The rules for a benchmark, with human labels of its answers.

        Raises:
            LabelError: the labels belong to other answers, or contradict most verdicts.
        """
        evidence = replace(
            self.rules.evidence, check=benchmark.check(self.summary.judge)
        )
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


@dataclass
class AttackPools:
    """Collects answers under single attacks until a benchmark of all attacks can be decided.

    Attributes:
        pools: the benchmarks that combine all attacks, by name.
        attacks: the attack of each benchmark that a pool needs, by name.
    """

    pools: Mapping[str, Benchmark]
    attacks: Mapping[str, str]
    _answers: dict[str, Records] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        benchmarks: Mapping[str, GatedBenchmark],
        catalogue: Mapping[str, Benchmark],
    ) -> AttackPools:
        pools = {
            name: benchmark.definition
            for name, benchmark in benchmarks.items()
            if benchmark.definition.under
        }
        attacks: dict[str, str] = {}
        for pool in pools.values():
            for name in pool.under:
                attacks[name] = catalogue[name].attack
        return cls(pools, attacks)

    def add(
        self, benchmark: str, records: Records
    ) -> Iterator[tuple[str, Records | EvaluationError]]:
        """Keep a benchmark's answers if a pool needs them.

        Yields:
            Each pool that is now complete, with every prompt's worst answers; or an error, if no
            answer under one attack has a verdict.
        """
        if benchmark not in self.attacks:
            return  # no pool needs them: do not hold them until the run ends
        self._answers[benchmark] = records
        for name, pool in self.pools.items():
            if name in self._ended or not self._answers.keys() >= set(pool.under):
                continue
            self._ended.add(name)
            yield name, self._worst(pool)

    def _worst(self, pool: Benchmark) -> Records | EvaluationError:
        """Each prompt's worst answers under the attacks of a pool."""
        by_attack: dict[str, Records] = {}
        for name in pool.under:
            answers = self._answers[name]
            if all(isinstance(record.judgement, Invalid) for record in answers):
                return EvaluationError(f"{name}: {nothing_valid(answers)}")
            by_attack[self.attacks[name]] = answers
        return worst_of(by_attack)

    def give_up(self, benchmark: str) -> Iterator[str]:
        """Yield the pools that cannot be decided because a benchmark has no verdicts."""
        for name, pool in self.pools.items():
            if benchmark in pool.under and name not in self._ended:
                self._ended.add(name)
                yield name
