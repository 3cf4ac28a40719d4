"""How well a judge agrees with people: confusion table, accuracy, kappa, Matthews, sensitivity.

A refusal is the positive class. Answers without a valid verdict count in ``invalid_rate`` only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.metrics.statistics.descriptive import agreement
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

REFUSAL, COMPLIANCE, PARTIAL = "refusal", "compliance", "partial_refusal"
"""The classes; a partial refusal has its own only on request."""

CLASSES = (REFUSAL, PARTIAL, COMPLIANCE)


@dataclass(frozen=True)
class Confusion:
    """How often the judge gave each class to the answers of each human class.

    Attributes:
        counts: answers by (human class, judge's class).
        invalid: labelled answers without a valid verdict.
    """

    counts: Mapping[tuple[str, str], int]
    invalid: int = 0

    @property
    def n(self) -> int:
        """Number of answers with a human label and a valid verdict."""
        return sum(self.counts.values())

    @property
    def invalid_rate(self) -> Estimate | None:
        """Share of labelled answers without a valid verdict; None without answers."""
        return _share(self.invalid, self.n + self.invalid)

    @property
    def accuracy(self) -> Estimate | None:
        """Share of verdicts that equal the human label; None without verdicts."""
        return _share(self._agreed, self.n)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa in [-1, 1]: agreement beyond chance, given the marginals.

        None if chance alone gives full agreement (both use one class only) or nothing was judged.

        Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
        Psychological Measurement 20 (1960), equation 1.
        """
        if not self.n:
            return None
        human, judge = self._marginals
        chance = sum(human[name] * judge[name] for name in human) / self.n**2
        observed = self._agreed / self.n
        return None if chance == 1 else (observed - chance) / (1 - chance)

    @property
    def matthews(self) -> float | None:
        """Matthews correlation in [-1, 1]; for three classes Gorodkin's R_K.

        None if either side uses one class only.

        Source: J. Gorodkin, "Comparing two K-category assignments by a K-category correlation
        coefficient", Computational Biology and Chemistry 28 (2004), equation 8; for two classes
        B. W. Matthews (1975).
        """
        human, judge = self._marginals
        together = sum(human[name] * judge[name] for name in human)
        spread = [self.n**2 - sum(count**2 for count in side.values()) for side in (human, judge)]
        if 0 in spread:
            return None
        return (self._agreed * self.n - together) / math.sqrt(spread[0] * spread[1])

    def called_refusal(self, name: str) -> Estimate | None:
        """Share of a human class that the judge calls a full or partial refusal; None if empty."""
        row = {judge: count for (human, judge), count in self.counts.items() if human == name}
        return _share(row.get(REFUSAL, 0) + row.get(PARTIAL, 0), sum(row.values()))

    @property
    def sensitivity(self) -> Estimate | None:
        """Share of human refusals that the judge calls refusals, with a Wilson interval."""
        return self.called_refusal(REFUSAL)

    @property
    def specificity(self) -> Estimate | None:
        """Share of human compliances that the judge calls compliance, with a Wilson interval."""
        refused = self.called_refusal(COMPLIANCE)
        return refused and Estimate(
            1 - refused.value, 1 - refused.upper, 1 - refused.lower, refused.n
        )

    @property
    def rates(self) -> tuple[float, float]:
        """Share of full or partial refusals according to people and to the judge; needs n > 0."""
        human, judge = self._marginals
        shares = [(side[REFUSAL] + side[PARTIAL]) / self.n for side in (human, judge)]
        return shares[0], shares[1]

    @property
    def _agreed(self) -> int:
        return sum(count for (human, judge), count in self.counts.items() if human == judge)

    @property
    def _marginals(self) -> tuple[Counter[str], Counter[str]]:
        human: Counter[str] = Counter()
        judge: Counter[str] = Counter()
        for (first, second), count in self.counts.items():
            human[first] += count
            judge[second] += count
        return human, judge


def confusion(pairs: Iterable[tuple[str, str | None]]) -> Confusion:
    """The table of (human class, judge's class) pairs; None stands for an invalid verdict."""
    labelled = list(pairs)
    counts = Counter((human, judge) for human, judge in labelled if judge is not None)
    return Confusion(dict(counts), len(labelled) - counts.total())


@dataclass(frozen=True, slots=True)
class Correlations:
    """Correlations of human and judge's scores of the same answers.

    Attributes:
        n: answers with both.
        invalid: labelled answers without a valid score.
        pearson, spearman, kendall: in [-1, 1] (Kendall's is tau-b, which allows for ties); None
            if either side's scores are all equal or n is below 3.
        exact: share of equal scores, in [0, 1]; None without scores.
    """

    n: int
    invalid: int
    pearson: float | None
    spearman: float | None
    kendall: float | None
    exact: float | None


def correlations(pairs: Sequence[tuple[float, float | None]]) -> Correlations:
    """Correlations of (human, judge's) scores; None stands for an invalid score."""
    valid = [(human, judge) for human, judge in pairs if judge is not None]
    invalid = len(pairs) - len(valid)
    if not valid:
        return Correlations(0, invalid, None, None, None, None)
    human, judge = zip(*valid, strict=True)
    exact = sum(one == other for one, other in valid) / len(valid)
    ranks, pearson = agreement(human, judge), None
    if ranks.spearman is not None:
        from scipy import stats

        pearson = float(stats.pearsonr(human, judge).statistic)
    return Correlations(len(valid), invalid, pearson, ranks.spearman, ranks.kendall, exact)


def _share(count: int, n: int) -> Estimate | None:
    return wilson(count / n, n) if n else None
