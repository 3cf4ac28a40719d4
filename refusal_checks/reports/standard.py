"""What a gate's prompts are held against, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.checks import AllowedRange
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.offenders import counts_against
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS


@dataclass(frozen=True)
class Standard:
    """One of a gate's bounds.

    Attributes:
        low: whether the figure must be at least the bound, else at most.
    """

    gate: Gate
    bound: float
    low: bool

    @property
    def rule(self) -> str:
        """The gate in words."""
        return f"{self.gate.id} must be {self.gate.threshold}"

    def holds(self, value: float) -> bool:
        """Whether a figure is on the right side."""
        limits = AllowedRange(self.bound) if self.low else AllowedRange(None, self.bound)
        return limits.holds(value)

    def concerns(self, prompt: Prompt) -> bool:
        """Whether the gate looks at a prompt of its benchmark."""
        kind = self.gate.group_kind
        return kind is None or prompt.groups.get(kind) == self.gate.group

    def is_missed_by(self, answers: Sequence[Record]) -> bool:
        """Whether a prompt draws the gate's figure towards the bound.

        Args:
            answers: all records of the prompt, at least one.
        """
        if not self.concerns(answers[0].prompt):
            return False
        metric = METRICS[self.gate.metric]
        score = metric.score(answers)
        return score is not None and counts_against(metric, score, self.bound, self.low)


def standard(verdict: Verdict) -> Standard | None:
    """The bound that the figure missed or, where it missed none, the only one.

    None where no prompt counts against the gate: it has bounds on both sides and neither is
    missed, or margins of the change alone.
    """
    gate = verdict.gate
    ends = ((gate.minimum, True), (gate.maximum, False))
    known = [Standard(gate, bound, low) for bound, low in ends if bound is not None]
    missed = [found for found in known if not found.holds(verdict.estimate.value)]
    return (missed or known)[0] if missed or len(known) == 1 else None
