"""What a run produces for each answer: completion, judgement, record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.verdicts import Invalid, Judgement, Reason

State = Literal["", "closed", "unclosed"]
"""Whether an answer came with reasoning, and whether that came to an end."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of the candidate.

    Attributes:
        text: the answer, without any reasoning.
        finish_reason: the server's word for why it ended: ``stop`` or ``length``.
        tokens: all that were generated, reasoning included; 0 where nobody counted them.
        mean_logprob: mean natural log-probability of the answer's tokens, at most 0; None where
            the source does not give it.
        reasoning: whether reasoning preceded the answer, and whether it ended.
        label: a verdict recorded beside the answer (by people, or by an earlier judge), verbatim.
    """

    text: str
    finish_reason: str = "stop"
    tokens: int = 0
    mean_logprob: float | None = None
    label: str | None = None
    reasoning: State = ""


@dataclass(frozen=True, slots=True)
class Vote:
    """What one judge of several said of an answer."""

    judge: str
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Record:
    """One sampled answer to one prompt, and what the judge said of it.

    Attributes:
        sample: index of the answer among the K sampled for its prompt, from 0.
        completion: None where the candidate gave none; the judgement then says why.
        votes: what each judge said, where several were asked; the judgement is their majority's.
    """

    prompt: Prompt
    sample: int
    completion: Completion | None
    judgement: Judgement
    votes: tuple[Vote, ...] = ()


def unusable(completion: Completion, max_tokens: int | None) -> Invalid | None:
    """Why an answer cannot be judged, or None where it can."""
    reason = completion.finish_reason
    cut_short = reason == "length" and max_tokens and 0 < completion.tokens < max_tokens
    if reason not in ("stop", "length") or cut_short:
        return Invalid(Reason.UNFINISHED_ANSWER, f"finish reason {reason}")
    if completion.reasoning == "unclosed":
        return Invalid(Reason.UNCLOSED_REASONING, f"finish reason {reason}")
    if not completion.text.strip():
        return Invalid(Reason.EMPTY_ANSWER, f"finish reason {reason}")
    return None
