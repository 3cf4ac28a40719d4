"""The prompts that count against a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.records import Record
from refusal_checks.metrics import Metric, confidence


@dataclass(frozen=True)
class Offender:
    """A prompt that counts against a gate, with the answer that counts most.

    Attributes:
        groups: the prompt's labels by kind.
        confidence: its refusal confidence; None without any valid verdict.
        verdict: on the answer in a word or two, or why there is none.
        cut: characters of the answer that the judge did not see.
        escaped: special tokens that were broken up for the judge.
        expected: the letter of the right option, if the question has one.
        prompt, answer, rationale: untrusted text, unescaped.
    """

    id: str
    groups: Mapping[str, str]
    confidence: float | None
    prompt: str
    answer: str
    verdict: str
    category: str | None
    rationale: str
    cut: int = 0
    escaped: int = 0
    expected: str = ""


def counts_against(metric: Metric, score: float, bound: float, low: bool) -> bool:
    """True if a prompt with this score pulls the figure beyond a bound.

    Args:
        low: the bound is a minimum, else a maximum.
    """
    if metric.counts is not None:
        return metric.counts(score) is not low
    return score < bound if low else score > bound


def offender(metric: Metric, answers: Sequence[Record], lowest: bool) -> Offender:
    """A prompt with its answer of the lowest score, else of the highest.

    Args:
        answers: all records of the prompt, at least one.
    """
    sign = 1 if lowest else -1
    scored = [(metric.score([record]), record) for record in answers]
    known = [(sign * score, record) for score, record in scored if score is not None]
    worst = min(known, key=lambda pair: pair[0])[1] if known else answers[0]
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
