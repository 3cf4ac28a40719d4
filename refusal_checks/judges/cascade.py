"""A classifier, and a second judge that decides where the classifier is unsure."""

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.records import Record, Vote, combine
from refusal_checks.core.settings import Cascading
from refusal_checks.core.verdicts import Binary, Judgement
from refusal_checks.judges.judge import Judge


@dataclass(frozen=True)
class Cascade:
    """Two judges; the second one is asked where ``first`` is unsure by ``rule``."""

    first: Judge
    second: Judge
    rule: Cascading

    @property
    def key(self) -> str:
        """What combined verdicts depend on besides each judge's identity."""
        return f"cascade {self.rule.low:g} to {self.rule.high:g} or cut"

    def is_unsure(self, judgement: Judgement) -> bool:
        """True if the first judgement leaves the decision to the second judge.

        That includes every answer that the first judge did not see in full.
        """
        if judgement.cut > 0 or not isinstance(judgement, Binary):
            return True
        probability = judgement.probability
        return probability is None or self.rule.low < probability < self.rule.high


def of(panel: Sequence[Judge]) -> Cascade | None:
    """The cascade that a panel of two forms; None for a panel that votes."""
    if len(panel) != 2:
        return None
    # Either order: users name judges as they like.
    for first, second in (panel, panel[::-1]):
        if first.cascade and second.identity is not None:
            return Cascade(first, second, first.cascade)
    return None


def decide(panel: Sequence[Judge], votes: Sequence[Vote]) -> Judgement:
    """A panel's verdict from its judges' votes: the cascade's, or the majority's."""
    cascade = of(panel)
    if cascade is None:
        return combine(votes)
    first = votes[0].judgement
    return votes[-1].judgement if cascade.is_unsure(first) else first


@dataclass(frozen=True)
class SecondAsked:
    """How often a cascade asked its second judge.

    Attributes:
        first: name of the first judge.
        judge: name of the second judge.
        asked: answers that the second judge decided.
        answers: number of answers in all.
    """

    first: str
    judge: str
    asked: int
    answers: int


def asked(cascade: Cascade, records: Sequence[Record]) -> SecondAsked:
    """Count the answers that the second judge decided."""
    return SecondAsked(
        first=cascade.first.name,
        judge=cascade.second.name,
        asked=sum(len(record.votes) > 1 for record in records),
        answers=len(records),
    )
