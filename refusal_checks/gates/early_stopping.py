"""Stop a benchmark once its gates are decided, with bounds that allow for every look.

A gate decided by its figure is about the benchmark's own prompts: they are asked in random order,
so those seen so far bound the rest. A gate decided with confidence is about all prompts of that
kind, of which the benchmark is a sample; it needs all of them, and is never decided early.
"""

import random
from collections.abc import Collection, Mapping, Sequence

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.gate import AllowedRange, Gate, Outcome
from refusal_checks.metrics import METRICS, Metric, by_prompt, metric_limits
from refusal_checks.metrics.statistics import confidence_sequence
from refusal_checks.metrics.statistics.confidence_sequence import TwoSided
from refusal_checks.metrics.statistics.intervals import Estimate


def shuffled(prompts: Sequence[Prompt], benchmark: str, seed: int) -> list[Prompt]:
    return random.Random(f"{seed} {benchmark}").sample(prompts, len(prompts))


def is_watched(gate: Gate) -> bool:
    """True if a gate may be decided before all prompts are evaluated.

    That excludes confident gates; gates with margins; figures that are not a share or mean of their
    prompts' scores; and gates on every group, since each group would have to be watched.
    """
    if gate.is_on_every_group or gate.has_margins or gate.decision != "point":
        return False
    return type(METRICS[gate.metric]) is Metric


class EarlyStopping:
    """Watches a run's gates while prompts arrive in random order."""

    def __init__(
        self,
        gates: Sequence[Gate],
        prompts: Mapping[str, Sequence[Prompt]],
        level: float,
        in_full: Collection[str] = (),
    ) -> None:
        """Start watching gates.

        Args:
            prompts: all of each benchmark, in any order.
            level: confidence of a gate's decision, however often it is looked at.
            in_full: benchmarks that are never stopped, since other gates need all of their answers.
        """
        self._gates, self._prompts = gates, prompts
        self._level, self._in_full = level, in_full
        self.begin()

    def begin(self) -> None:
        """Forget a benchmark's answers, so that it can start over after an interruption."""
        self._watches = {
            gate.id: _Watch(gate, self._prompts[gate.benchmark], self._level)
            for gate in self._gates
        }

    def enough(self, benchmark: str, answers: Sequence[Record]) -> bool:
        """Add the next prompt's answers; True once all of the benchmark's gates are decided."""
        watches = [w for w in self._watches.values() if w.gate.benchmark == benchmark]
        for watch in watches:
            watch.see(answers)
        if benchmark in self._in_full:
            return False
        return all(watch.is_decided for watch in watches)

    def estimate(self, gate: Gate, records: Sequence[Record]) -> Estimate:
        """A gate's figure so far, with bounds that hold at whatever point one stops."""
        metric, watch = METRICS[gate.metric], self._watches[gate.id]
        estimate = metric.estimate(records, self._level)
        values = [watch.values(answers) for answers in by_prompt(records).values()]
        lower, upper = confidence_sequence.bounds(
            [low for low, _ in values],
            [high for _, high in values],
            watch.population,
            self._level,
            watch.limits.ends,
        )
        return Estimate(
            estimate.value,
            min(estimate.value, metric.lowest + lower * metric.span),
            max(estimate.value, metric.lowest + upper * metric.span),
            estimate.n,
        )


class _Watch:
    """Follows one gate until it is decided."""

    def __init__(self, gate: Gate, prompts: Sequence[Prompt], level: float) -> None:
        seen = [prompt for prompt in prompts if gate.looks_at(prompt)]
        self.gate, self._metric = gate, METRICS[gate.metric]
        # The gate's limits, with the metric's range mapped to [0, 1].
        self.limits = AllowedRange(
            self._scaled(gate.minimum), self._scaled(gate.maximum)
        )
        self.population = len(seen)  # the prompts that its figure is about
        means: list[float] = []
        for end in self.limits.ends:
            means += confidence_sequence.beside(end)
        self._sequence = TwoSided(means, self.population, level)
        self._may_stop = is_watched(gate)
        self._has_seen = False

    def _scaled(self, end: float | None) -> float | None:
        return None if end is None else self._metric.scaled(end)

    def see(self, answers: Sequence[Record]) -> None:
        if self.gate.looks_at(answers[0].prompt):
            self._has_seen = True
            self._sequence.see(*self.values(answers))

    @property
    def is_decided(self) -> bool:
        if self.gate.spared:
            # With so few answers, only the whole group could decide it.
            return self._has_seen
        outcome = self.limits.outcome(*self._sequence.bounds)
        return self._may_stop and outcome is not Outcome.INCONCLUSIVE

    def values(self, answers: Sequence[Record]) -> tuple[float, float]:
        """The least and the most that a prompt can add to the figure, in [0, 1]."""
        score = self._metric.score(answers)
        if score is None:
            return 0.0, 1.0
        name = answers[0].prompt.id
        limits = metric_limits(self._metric, answers).get(name, (score, score))
        values = self._metric.values((score, *limits))
        scaled = [self._metric.scaled(value) for value in values]
        return min(scaled), max(scaled)
