"""How far labels of a run's answers agree with its judge's verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from refusal_checks.core.errors import LabelError
from refusal_checks.core.labelling import LEAST
from refusal_checks.judges.trust.draws import DRAWN, Drawn
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

MOST = 0.5
"""Labels or verdicts are wrong throughout if they contradict a larger share."""


@dataclass(frozen=True)
class LabelCheck:
    """Labels of answers, compared with the judge's verdicts on them.

    Attributes:
        of: what the answers were drawn from.
        labelled: number of answers that have a label and a valid verdict.
        contradicted: on how many of them the two differ.
        skipped: answers that were drawn, and left out above a labelled one.
    """

    of: Drawn
    labelled: int
    contradicted: int
    skipped: int = 0

    @property
    def share(self) -> float:
        """The share of the verdicts that labels contradict; 0 without labels."""
        return self.contradicted / self.labelled if self.labelled else 0.0

    def agreement(self, level: float = 0.95) -> Estimate:
        """The share of the verdicts that people share.

        The interval counts skipped answers one way, then the other.

        Raises:
            ZeroDivisionError: no answer has a label.
        """
        agreed, total = self.labelled - self.contradicted, self.labelled + self.skipped
        lowest = wilson(agreed / total, total, level)
        highest = wilson((agreed + self.skipped) / total, total, level)
        value = agreed / self.labelled
        return Estimate(value, lowest.lower, highest.upper, self.labelled)


def pooled(checks: Iterable[LabelCheck]) -> list[LabelCheck]:
    """The checks of several benchmarks together, one for each kind of draw that has labels."""
    every = list(checks)
    together = []
    for of in DRAWN:
        own = [check for check in every if check.of == of]
        labelled = sum(check.labelled for check in own)
        contradicted = sum(check.contradicted for check in own)
        skipped = sum(check.skipped for check in own)
        if labelled:
            together.append(LabelCheck(of, labelled, contradicted, skipped))
    return together


def require_agreement(name: str, checks: Sequence[LabelCheck]) -> None:
    """Raise LabelError if ``LEAST`` labels or more contradict most of the verdicts.

    Args:
        name: of the labels' files.
    """
    for check in pooled(checks):
        if check.labelled >= LEAST and check.share > MOST:
            raise LabelError(
                f"{name}: are the labels swapped? {check.contradicted} of {check.labelled} say the "
                "opposite of the judge. If they are right, name another judge: this one misreads "
                "most of these answers"
            )
