"""Find the prompts that count against a gate, and the bound that they miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refusal_checks.core.records import Record
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS, Metric


@dataclass(frozen=True)
class FailingPrompt:
    """A prompt that counts against a gate, with its most telling answer.

    Prompt, answer and rationale are untrusted text, not escaped.

    Attributes:
        verdict: the verdict on the answer in a word or two, or why there is none.
        cut: number of characters of the answer that the judge did not see.
        escaped: number of special tokens that were broken up for the judge.
        expected: the letter of the right option, if the question has one.
        like: how many of the prompt's ``answers`` have this verdict.
    """

    id: str
    groups: Mapping[str, str]
    prompt: str
    answer: str
    verdict: str
    category: str | None
    rationale: str
    cut: int = 0
    escaped: int = 0
    expected: str = ""
    like: int = 1
    answers: int = 1


class MissedBound(NamedTuple):
    """One of a gate's bounds: the figure must be at least, or at most, this value."""

    gate: Gate
    bound: float
    is_minimum: bool

    @classmethod
    def find(cls, gate: Gate, value: float) -> MissedBound | None:
        """The bound that a figure misses, or the only bound if it misses none.

        None if no prompt counts against the gate: it has two bounds and the figure lies between
        them, or only bounds on the change.
        """
        minimum, maximum = gate.min, gate.max
        # Between two bounds, no prompt is on the wrong side of both.
        if minimum is not None and maximum is not None and gate.limits.holds(value):
            return None
        if minimum is not None and (maximum is None or value <= minimum):
            return cls(gate, minimum, is_minimum=True)
        if maximum is not None:
            return cls(gate, maximum, is_minimum=False)
        return None

    def counts(self, score: float) -> bool:
        """True if a prompt with this score pulls the figure beyond the bound."""
        (value,) = METRICS[self.gate.metric].values([score])
        return value < self.bound if self.is_minimum else value > self.bound

    def is_missed_by(self, answers: Sequence[Record]) -> bool:
        """True if a prompt, with one or more records, counts against the gate."""
        if not self.gate.looks_at(answers[0].prompt):
            return False
        score = METRICS[self.gate.metric].score(answers)
        return score is not None and self.counts(score)


def failing_prompt(
    metric: Metric, answers: Sequence[Record], lowest: bool
) -> FailingPrompt:
    """Make a failing prompt from the answer with the lowest or the highest score."""
    # One answer of several, scored as if it were the only one: what pulled the prompt's score most.
    worst, worst_score = answers[0], None
    for record in answers:
        score = metric.score([record])
        if score is None:
            continue
        is_worse = worst_score is None or (
            score < worst_score if lowest else score > worst_score
        )
        if is_worse:
            worst, worst_score = record, score
    expected = ""
    if worst.prompt.options:
        expected = worst.prompt.reference or ""
    verdict = worst.judgement.in_words
    return FailingPrompt(
        id=worst.prompt.id,
        groups=dict(worst.prompt.groups),
        prompt=worst.prompt.transcript,
        answer=worst.completion.text if worst.completion else "",
        verdict=verdict,
        category=worst.judgement.category,
        rationale=worst.judgement.rationale,
        cut=worst.judgement.cut,
        escaped=worst.judgement.escaped,
        expected=expected,
        like=sum(record.judgement.in_words == verdict for record in answers),
        answers=len(answers),
    )
