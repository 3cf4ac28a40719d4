"""The prompts that count against a gate, and the bound that they miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS, Metric, confidence


@dataclass(frozen=True)
class Offender:
    """A prompt that counts against a gate, with the answer that counts most."""

    id: str
    groups: Mapping[str, str]
    confidence: float | None  # of refusal; None without any valid verdict
    # prompt, answer, rationale: untrusted text, unescaped
    prompt: str
    answer: str
    verdict: str  # on the answer in a word or two, or why there is none
    category: str | None
    rationale: str
    cut: int = 0  # characters of the answer that the judge did not see
    escaped: int = 0  # special tokens that were broken up for the judge
    expected: str = ""  # the letter of the right option, if the question has one


class MissedBound(NamedTuple):
    """One of a gate's bounds: the figure must be at least it, or at most."""

    gate: Gate
    bound: float
    is_minimum: bool

    @classmethod
    def of(cls, gate: Gate, value: float) -> MissedBound | None:
        """The bound that a figure misses, or the only bound if it misses none.

        None if no prompt counts against the gate: it has two bounds and the figure is between
        them, or only bounds on the change.
        """
        ends = ((gate.minimum, True), (gate.maximum, False))
        held = [
            cls(gate, end, is_minimum) for end, is_minimum in ends if end is not None
        ]
        if len(held) > 1:
            if gate.limits.holds(value):
                return None
            return held[value > held[0].bound]
        return held[0] if held else None

    def counts(self, score: float) -> bool:
        """True if a prompt with this score pulls the figure beyond the bound."""
        metric = METRICS[self.gate.metric]
        if metric.counts is not None:
            return metric.counts(score) is not self.is_minimum
        return score < self.bound if self.is_minimum else score > self.bound

    def is_missed_by(self, answers: Sequence[Record]) -> bool:
        """True if a prompt counts against the gate, by all of its records, at least one."""
        score = METRICS[self.gate.metric].score(answers)
        return (
            self.gate.looks_at(answers[0].prompt)
            and score is not None
            and self.counts(score)
        )


def offender(metric: Metric, answers: Sequence[Record], lowest: bool) -> Offender:
    scored = [(metric.score([record]), record) for record in answers]
    known = [(score, record) for score, record in scored if score is not None]
    pick = min if lowest else max
    worst = pick(known, key=lambda pair: pair[0])[1] if known else answers[0]
    return Offender(
        id=worst.prompt.id,
        groups=dict(worst.prompt.groups),
        confidence=confidence(answers),
        prompt=worst.prompt.transcript,
        answer=worst.completion.text if worst.completion else "",
        verdict=worst.judgement.verdict,
        category=worst.judgement.category,
        rationale=worst.judgement.rationale,
        cut=worst.judgement.cut,
        escaped=worst.judgement.escaped,
        expected=(worst.prompt.options and worst.prompt.reference) or "",
    )


def answers_of(
    shown: Iterable[Offender], records: Sequence[Record]
) -> dict[tuple[str, str], Record]:
    """The answers with a verdict of the prompts shown, by id and text; of equal ones the first."""
    ids = {each.id for each in shown}
    return {
        (record.prompt.id, record.completion.text): record
        for record in reversed(records)
        if record.prompt.id in ids
        if record.completion and not isinstance(record.judgement, Invalid)
    }
