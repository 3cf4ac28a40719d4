"""Several judges of one answer: the verdict of their majority.

A verdict needs more than half of all the judges, those without a valid verdict included, so that
it stands whatever these would have said: with two judges both must agree. Ratings are averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from refusal_checks.core.records import Vote
from refusal_checks.core.verdicts import Invalid, Judgement, Reason

RATIONALE = 300
"""Characters of each judge's rationale in the panel's."""


def combine(votes: Sequence[Vote]) -> Judgement:
    """The panel's judgement; of one judge, its own.

    Args:
        votes: at least one; the valid ones' judgements are of one type.

    Returns:
        What the majority says, with a rationale that names who said what; Invalid with
        ``NO_MAJORITY`` if there is none, and with the most common reason if no vote is valid.
    """
    if len(votes) == 1:
        return votes[0].judgement
    invalid = [vote.judgement for vote in votes if isinstance(vote.judgement, Invalid)]
    if len(invalid) == len(votes):
        reasons = Counter(judgement.reason for judgement in invalid)
        return Invalid(reasons.most_common(1)[0][0], _summary(votes))
    valid: list[Any] = [vote.judgement for vote in votes if vote.judgement.kind != "invalid"]
    agreed: Judgement | None = valid[0].combine(valid, len(votes), _summary(votes))
    return agreed or Invalid(Reason.NO_MAJORITY, _summary(votes))


def _summary(votes: Sequence[Vote]) -> str:
    """Who said what: all verdicts first, then the rationales."""
    verdicts = ", ".join(f"{vote.judge}: {vote.judgement.verdict}" for vote in votes)
    reasons = [f"{vote.judge}: {why}" for vote in votes if (why := vote.judgement.rationale)]
    return ". ".join([verdicts, *(text[:RATIONALE] for text in reasons)])


def is_disputed(votes: Sequence[Vote]) -> bool | None:
    """True if valid votes differ; None if fewer than two have a side."""
    sides = [vote.judgement.verdict for vote in votes if vote.judgement.has_sides]
    return len(set(sides)) > 1 if len(sides) > 1 else None
