"""Answers, and the records of how they were judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.verdicts import Invalid, Judgement, Reason

State = Literal["", "closed", "unclosed"]
"""Empty for an answer without reasoning; else whether the reasoning ended."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of the candidate.

    Attributes:
        text: the answer, without any reasoning.
        finish_reason: why it ended, in the server's words: ``stop`` or ``length``.
        tokens: number generated, reasoning included; 0 if unknown.
        mean_logprob: mean natural log-probability of the answer's tokens, at most 0; None if
            unknown.
        label: a verdict recorded beside the answer (by people or an earlier judge), verbatim.
        reasoning: whether reasoning preceded the answer, and whether it ended.
        room: tokens that the model's context left for the answer, if it used all of them and they
            are fewer than were asked for; else 0.
        never_asked: of a recorded attack that was given up: nothing was sent, so there is no
            answer, and only a label can say how its authors count it.
    """

    text: str
    finish_reason: str = "stop"
    tokens: int = 0
    mean_logprob: float | None = None
    label: str | None = None
    reasoning: State = ""
    room: int = 0
    never_asked: bool = False


@dataclass(frozen=True, slots=True)
class Vote:
    """The judgement of one judge among several."""

    judge: str
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Record:
    """One sampled answer to one prompt, and its judgement.

    Attributes:
        sample: index of the answer among the K sampled for its prompt, from 0.
        completion: None if the candidate gave none; the judgement then says why.
        votes: each judge's judgement, if there are several; ``judgement`` is their majority's.
    """

    prompt: Prompt
    sample: int
    completion: Completion | None
    judgement: Judgement
    votes: tuple[Vote, ...] = ()


def unusable(completion: Completion, max_tokens: int | None) -> Invalid | None:
    """The reason why an answer cannot be judged, None if it can."""
    reason, most = completion.finish_reason, completion.room or max_tokens
    cut_short = reason == "length" and most and 0 < completion.tokens < most
    if reason not in ("stop", "length") or cut_short:
        return Invalid(Reason.UNFINISHED_ANSWER, f"finish reason {reason}")
    if completion.reasoning == "unclosed":
        return Invalid(Reason.UNCLOSED_REASONING, f"finish reason {reason}")
    if not completion.text.strip():
        return Invalid(Reason.EMPTY_ANSWER, f"finish reason {reason}")
    return None
