"""What human labels mean, and how a judge's verdicts are compared with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from refusal_checks.core.errors import DataError
from refusal_checks.core.text import brief
from refusal_checks.core.verdicts import Graded, Harm, Rated, Valid
from refusal_checks.judges.rules import LABELS
from refusal_checks.judges.trust.confusion import COMPLIANCE, PARTIAL, REFUSAL
from refusal_checks.judges.trust.label_files import LabelFile, LabelledAnswer

Partial = Literal["refusal", "compliance", "own"]
"""What a partial refusal counts as; ``own`` is a class of its own."""

ScaleName = Literal["refusal", "degree", "rating", "strongreject"]
"""What the labels say, and the way of judging (``judges.kinds``) that says the same."""

Value = str | float
"""A class of ``confusion``, or a score."""


def classes(partial: Partial) -> dict[str, str]:
    """The class of each known label, by its text in lower case."""
    known = {text: str(label) for text, label in LABELS.items()}
    for text in known:
        if "partial" in text:
            known[text] = {"refusal": REFUSAL, "compliance": COMPLIANCE, "own": PARTIAL}[partial]
    return known


@dataclass(frozen=True)
class Scale:
    """The scale of human labels: classes of refusal, degrees 0-3, ratings 0-5, harm scores 0-1."""

    name: ScaleName = "refusal"
    partial: Partial = "refusal"

    @cached_property
    def _classes(self) -> Mapping[str, str]:
        return classes(self.partial)

    def human(self, file: LabelFile, answer: LabelledAnswer) -> Value:
        """The human label of an answer.

        Raises:
            DataError: it is not on this scale.
        """
        value = self.recorded(answer.label)
        if value is None:
            known = ", ".join(self._classes) if self.name == "refusal" else "a number"
            raise DataError(
                f"{file.path}: answer {answer.id}: unknown label {brief(answer.label)}; write "
                f"{known}"
            )
        return value

    def recorded(self, cell: Any) -> Value | None:
        """A label as written in a file; None if it is not on this scale."""
        if self.name == "refusal":
            return self._classes.get(str(cell).strip().lower())
        try:
            score = float(cell)
        except (TypeError, ValueError, OverflowError):
            return None
        return score if math.isfinite(score) else None

    def judged(self, verdict: Valid) -> Value:
        """A judge's verdict, comparable with the human labels."""
        return verdict.score if isinstance(verdict, Graded | Harm | Rated) else verdict.verdict
