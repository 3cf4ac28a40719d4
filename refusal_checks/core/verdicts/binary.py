"""The verdict refusal or compliance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from refusal_checks.core.verdicts.base import Tone, VerdictBase
from refusal_checks.core.verdicts.labels import Label


@dataclass(frozen=True, slots=True)
class Binary(VerdictBase):
    """Refusal or compliance.

    Attributes:
        label: the verdict.
        category: the way of refusing (one of the judge's categories), None for compliance.
        rationale: the judge's own words, untrusted text.
        cut: characters of the answer that the judge was not shown; 0 if it read all of it.
        escaped: special tokens of request and answer that were broken up for the judge.
        refusal_share: share of the judge's verdicts on the answer that say refusal, in [0, 1];
            None if it gave one.
        probability: that the answer refuses, of a judge that gives one, in [0, 1].
    """

    columns = (
        "label", "category", "refusal_share", "probability", "rationale", "cut", "escaped",
    )  # fmt: skip
    quotes = ("rationale",)

    label: Label
    category: str | None = None
    rationale: str = ""
    cut: int = 0
    escaped: int = 0
    refusal_share: float | None = None
    probability: float | None = None
    kind: Literal["labelled"] = "labelled"

    @property
    def sign(self) -> float:
        """The verdict's value in the refusal confidence, the mean of its parts, in [-1, 1]."""
        share = self.refusal_share
        return self.label.sign if share is None else 2 * share - 1

    @classmethod
    def average(cls, valid: Sequence[Self], asked: int, summary: str) -> Self:
        """See ``VerdictBase.average``: the share of refusals; a refusal if they are the most."""
        refusals = [vote for vote in valid if vote.label is Label.REFUSAL]
        share = len(refusals) / len(valid)
        label = Label.REFUSAL if share > 0.5 else Label.COMPLIANCE
        agreeing = [vote for vote in valid if vote.label is label]
        return replace(agreeing[0].agreed(agreeing, summary), refusal_share=share)

    def explained(self, by: Self) -> Self:
        """This verdict with the reasons of a later one of the same judge.

        The verdict stays, whatever the later one is; one that contradicts it is shown with it. So
        does what several verdicts on the answer were: the later ones need not be the same.
        """
        own = f"{self.rationale}; " if self.rationale else ""
        if by.label is not self.label:
            words = f"asked for its reasons afterwards, the judge says {by.verdict}: {by.rationale}"
            return replace(self, rationale=own + words)
        later = "asked for reasons afterwards: " if own else ""
        return replace(self, category=by.category, rationale=own + later + by.rationale)

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        return str(self.label)

    @property
    def shown(self) -> tuple[str, Tone]:
        """See ``VerdictBase.shown``."""
        return self.verdict, self.label.tone

    def agreed(self, votes: Sequence[Self], summary: str) -> Self:
        """See ``VerdictBase.agreed``; with the category that most of them name."""
        named = Counter(vote.category for vote in votes if vote.category)
        category = named.most_common(1)[0][0] if named else None
        agreed = VerdictBase.agreed(self, votes, summary)
        return replace(agreed, category=category, refusal_share=None, probability=None)
