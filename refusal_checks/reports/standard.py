"""The bound that decides which prompts count against a gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.records import Record
from refusal_checks.gates.compare import counts_against
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import AllowedRange, Gate
from refusal_checks.metrics import METRICS


@dataclass(frozen=True)
class Standard:
    """One of a gate's bounds.

    Attributes:
        is_minimum: True if the figure must be at least the bound, else at most.
    """

    gate: Gate
    bound: float
    is_minimum: bool

    @property
    def rule(self) -> str:
        """The gate in words."""
        return f"{self.gate.id} must be {self.gate.threshold}"

    def is_missed_by(self, answers: Sequence[Record]) -> bool:
        """True if a prompt counts against the gate.

        Args:
            answers: all records of the prompt, at least one.
        """
        if not self.gate.concerns(answers[0].prompt.groups):
            return False
        metric = METRICS[self.gate.metric]
        score = metric.score(answers)
        return score is not None and counts_against(metric, score, self.bound, self.is_minimum)


def standard(verdict: Verdict) -> Standard | None:
    """The bound that the figure missed, or the only bound if it missed none.

    None if no prompt counts against the gate: it has two bounds and missed neither, or only bounds
    on the change.
    """
    gate, value = verdict.gate, verdict.estimate.value
    if gate.minimum is not None and not AllowedRange(gate.minimum).holds(value):
        return Standard(gate, gate.minimum, True)
    if gate.maximum is not None and not AllowedRange(None, gate.maximum).holds(value):
        return Standard(gate, gate.maximum, False)
    if len(gate.limits.ends) == 1:
        return Standard(gate, gate.limits.ends[0], gate.minimum is not None)
    return None
