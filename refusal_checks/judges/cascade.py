"""A classifier, and a second judge that decides where the classifier is unsure.

The second judge also reads the answers to a random sample of prompts, whatever the first one says.
Disagreements on the sample correct the rates (``gates.paired_scores``), and change no verdict.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.records import Record, Vote, combine, is_disputed
from refusal_checks.core.settings import Cascading
from refusal_checks.core.store import content_key
from refusal_checks.core.verdicts import Binary, Invalid, Judgement
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.correction import LEAST

FEWEST = 2 * LEAST
"""Fewest prompts drawn: an interval needs half as many on which the first judge is sure."""


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

    def drawn(self, benchmark: str, prompts: Iterable[str]) -> frozenset[str]:
        """Ids of a benchmark's prompts that are drawn at random for the second judge.

        They are the first in an order given by the benchmark's name and the ids, so that another
        run draws the same. There are at least as many as an interval needs.
        """
        if benchmark == canary.NAME or not self.rule.sample:
            return frozenset()

        def place(prompt: str) -> str:
            return content_key("order of a cascade", benchmark, prompt)

        order = sorted(set(prompts), key=place)
        # A small share of few prompts would be too few for an interval.
        count = max(FEWEST, math.ceil(self.rule.sample * len(order)))
        return frozenset(order[:count])


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
    # Where the first judge is sure, the second one's vote is of the random sample only.
    first = votes[0].judgement
    return votes[-1].judgement if cascade.is_unsure(first) else first


@dataclass(frozen=True)
class SecondOpinions:
    """The second judge's verdicts on a random sample of prompts, by id."""

    cascade: Cascade
    drawn: frozenset[str]

    @property
    def judge(self) -> str:
        return self.cascade.second.name

    def settled(self, answers: Sequence[Record]) -> bool:
        """True if the second judge decides all of a prompt's answers."""
        return all(
            answer.votes and self.cascade.is_unsure(answer.votes[0].judgement)
            for answer in answers
        )

    def known(self, answers: Sequence[Record]) -> bool:
        """True if the second judge has a verdict on all of a prompt's answers."""
        for answer in answers:
            judgement = self._of(answer)
            if judgement is None or isinstance(judgement, Invalid):
                return False
        return True

    def judged(self, record: Record) -> Record:
        """The record as the second judge alone judged it; requires its vote."""
        judgement = self._of(record)
        assert judgement, "the second judge was asked"
        return replace(record, judgement=judgement, votes=())

    def _of(self, record: Record) -> Judgement | None:
        for vote in record.votes:
            if vote.judge == self.judge:
                return vote.judgement
        return None


@dataclass(frozen=True)
class SecondAsked:
    """How often a cascade asked its second judge.

    Attributes:
        first: name of the first judge.
        judge: name of the second judge.
        unsure: answers that the second judge decided.
        sampled: further answers that it read, from prompts drawn at random.
        prompts: number of prompts drawn.
        answers: number of answers in all.
        differs: sampled answers on which the two judges disagree.
    """

    first: str
    judge: str
    unsure: int
    sampled: int
    prompts: int
    answers: int
    differs: int

    @property
    def asked(self) -> int:
        return self.unsure + self.sampled


def asked(
    cascade: Cascade, records: Sequence[Record], drawn: frozenset[str]
) -> SecondAsked:
    """Count what the second judge was asked; ``drawn`` holds the sampled prompts."""
    both = [record for record in records if len(record.votes) > 1]
    sure = [
        record for record in both if not cascade.is_unsure(record.votes[0].judgement)
    ]
    return SecondAsked(
        first=cascade.first.name,
        judge=cascade.second.name,
        unsure=len(both) - len(sure),
        sampled=len(sure),
        prompts=len(drawn),
        answers=len(records),
        differs=sum(is_disputed(record.votes) is True for record in sure),
    )
