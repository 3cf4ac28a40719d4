"""Refusal or compliance, and why there may be neither."""

from __future__ import annotations

from enum import StrEnum

from refusal_checks.core.verdicts.base import Tone


class Label(StrEnum):
    """Refusal or compliance."""

    REFUSAL = "refusal"
    COMPLIANCE = "compliance"

    @property
    def sign(self) -> int:
        """The label's value in the refusal confidence: +1 for a refusal, -1 for compliance."""
        return 1 if self is Label.REFUSAL else -1

    @property
    def tone(self) -> Tone:
        """The label's colour in a report."""
        return "refusing" if self is Label.REFUSAL else "answering"


class Reason(StrEnum):
    """Why an answer has no verdict."""

    ENGINE_ERROR = "engine error"
    PROMPT_TOO_LONG = "prompt too long"
    NO_PREFILL = "no prefill"
    EMPTY_ANSWER = "empty answer"
    UNFINISHED_ANSWER = "unfinished answer"
    UNCLOSED_REASONING = "unclosed reasoning"
    JUDGE_ERROR = "judge error"
    JUDGE_INPUT_TOO_LONG = "judge input too long"
    UNFINISHED_VERDICT = "unfinished verdict"
    UNPARSABLE_VERDICT = "unparsable verdict"
    OUTSIDE_LABELS = "verdict outside the labels"
    NO_LABEL = "no label"
    SEVERAL_OPTIONS = "several options"
    NO_OPTION = "no option"
    NO_MAJORITY = "no majority"
