"""Stopping a benchmark once its gates are decided, with bounds that allow for every look.

A gate that its point decides asks on which side the figure of *all* of the benchmark's prompts is:
the prompts come in a random order, so what has been seen bounds what is left. A gate that wants
confidence asks for the figure of all prompts of that kind, as its interval does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.checks import AllowedRange, Outcome
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS, Metric, by_prompt
from refusal_checks.metrics.statistics import confidence_sequence
from refusal_checks.metrics.statistics.confidence_sequence import Betting
from refusal_checks.metrics.statistics.intervals import Estimate

_ENDLESS = 10**9
"""Stands for all prompts of a kind: what was seen of them changes nothing for the rest."""


def shuffled(prompts: Sequence[Prompt], benchmark: str, seed: int) -> list[Prompt]:
    """The prompts in an order that the run's seed and the benchmark's name fix."""
    return random.Random(f"{seed} {benchmark}").sample(prompts, len(prompts))


class EarlyStopping:
    """Watches the gates of a run; fed with prompts in their random order.

    Args:
        gates: the selected gates.
        prompts: all prompts of each benchmark, in any order.
        level: confidence with which a gate is decided, however often it is looked at.
    """

    def __init__(
        self, gates: Sequence[Gate], prompts: Mapping[str, Sequence[Prompt]], level: float
    ) -> None:
        self._level = level
        self._totals = {
            gate.id: sum(gate.concerns(prompt.groups) for prompt in prompts[gate.benchmark])
            for gate in gates
        }
        self._gates = gates
        self._benchmarks = tuple(prompts)
        self.begin()

    def begin(self) -> None:
        """Forget all answers, so that a benchmark that was broken off can begin again."""
        self._watches: dict[str, list[_Watch]] = {name: [] for name in self._benchmarks}
        for gate in self._gates:
            watch = _Watch(gate, self._population(gate), self._level)
            self._watches[gate.benchmark].append(watch)

    def enough(self, benchmark: str, answers: Sequence[Record]) -> bool:
        """Take in the next prompt's answers; whether all gates of the benchmark are decided."""
        for watch in self._watches[benchmark]:
            watch.see(answers)
        return all(watch.is_decided for watch in self._watches[benchmark])

    def estimate(self, gate: Gate, records: Sequence[Record]) -> Estimate:
        """A gate's figure so far, with bounds that hold whenever one stops.

        Prompts without a score count as the lowest value in the lower bound, as the highest in
        the upper one.

        Raises:
            EvaluationError: no answer has a valid verdict.
        """
        found = METRICS[gate.metric].estimate(records, self._level)
        values = [_values(gate, answers) for answers in by_prompt(records).values()]
        lower, upper = confidence_sequence.bounds(
            (low for low, _ in values),
            (high for _, high in values),
            self._population(gate),
            self._level,
            [_scaled(gate, end) for end in (gate.minimum, gate.maximum) if end is not None],
        )
        metric = METRICS[gate.metric]
        span = metric.highest - metric.lowest
        return Estimate(
            found.value,
            min(found.value, metric.lowest + lower * span),
            max(found.value, metric.lowest + upper * span),
            found.n,
        )

    def _population(self, gate: Gate) -> int:
        return self._totals[gate.id] if gate.decision == "point" else _ENDLESS


class _Watch:
    """Whether one gate is decided.

    One with margins against a baseline never is, early, nor one on a figure that is no share or
    mean of its prompts' scores.
    """

    def __init__(self, gate: Gate, total: int, level: float) -> None:
        self._gate = gate
        ends = [_scaled(gate, end) for end in (gate.minimum, gate.maximum) if end is not None]
        self._means = [mean for end in ends for mean in confidence_sequence.beside(end)]
        alpha = (1 - level) / 2
        self._below = Betting(self._means, total, alpha)
        self._above = Betting([1 - mean for mean in self._means], total, alpha)

    def see(self, answers: Sequence[Record]) -> None:
        if self._gate.concerns(answers[0].prompt.groups):
            low, high = _values(self._gate, answers)
            self._below.see(low)
            self._above.see(1 - high)

    @property
    def is_decided(self) -> bool:
        if self._gate.has_margins or type(METRICS[self._gate.metric]) is not Metric:
            return False
        pairs = zip(self._means, self._below.too_low, strict=True)
        lower = max((mean for mean, out in pairs if out), default=0.0)
        pairs = zip(self._means, self._above.too_low, strict=True)
        upper = min((mean for mean, out in pairs if out), default=1.0)
        ends = (self._gate.minimum, self._gate.maximum)
        limits = AllowedRange(*(None if end is None else _scaled(self._gate, end) for end in ends))
        return limits.outcome(lower, upper) is not Outcome.INCONCLUSIVE


def _scaled(gate: Gate, value: float) -> float:
    """A value on the metric's range, as one in [0, 1]."""
    metric = METRICS[gate.metric]
    return (value - metric.lowest) / (metric.highest - metric.lowest)


def _values(gate: Gate, answers: Sequence[Record]) -> tuple[float, float]:
    """The least and the most that a prompt may add to the figure, in [0, 1]."""
    metric = METRICS[gate.metric]
    score = metric.score(answers)
    if score is None:
        return 0.0, 1.0
    value = metric.values([score])[0]
    scaled = value if metric.counts is not None else _scaled(gate, value)
    return scaled, scaled
