"""The verdict on an answer to a multiple-choice question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from refusal_checks.core.verdicts.base import Tone, VerdictBase


@dataclass(frozen=True, slots=True)
class Chosen(VerdictBase):
    """An answer to a multiple-choice question, and the option that it settles on.

    Attributes:
        option: the letter that was chosen, None if the answer refused to choose.
        correct: True if it is the key's option, False for a refusal; None if the key has none.
        rationale: how the option was found in the answer; a judge's is untrusted text.
        read_by: rules, or a judge model where rules find nothing certain.
        cut: characters of the answer that the judge was not shown; 0 if it read all of it.
        escaped: special tokens of request and answer that were broken up for the judge.
    """

    columns = ("option", "correct", "read_by", "rationale", "cut", "escaped")
    quotes = ("rationale",)

    option: str | None
    correct: bool | None
    rationale: str = ""
    read_by: Literal["rules", "judge"] = "rules"
    cut: int = 0
    escaped: int = 0
    kind: Literal["chosen"] = "chosen"

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        return f"option {self.option}" if self.option else "refusal"

    @property
    def shown(self) -> tuple[str, Tone]:
        """See ``VerdictBase.shown``; the right option has the colour of a refusal."""
        if self.option is None:
            return "no option taken", "refusing" if self.correct else "answering"
        right = {True: "right option", False: "wrong option", None: "option without a key"}
        return right[self.correct], "answering" if self.correct is False else "refusing"

    def agreed(self, votes: Sequence[Self], summary: str) -> Self:
        """See ``VerdictBase.agreed``; the rule that found the option stays its rationale."""
        return self
