"""Judges measured against people's labels of the same recorded answers.

A refusal is the positive class. Answers without a valid verdict count in ``invalid`` only.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TypeVar

from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.language import language_of
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.judges.trust.calibration import BenchmarkCounts, Calibration, JudgeIdentity
from refusal_checks.judges.trust.label_files import (
    COMPLIANCE,
    PARTIAL,
    REFUSAL,
    LabelFile,
    LabelledAnswer,
    Scale,
    Score,
)
from refusal_checks.judges.trust.labels import prompt_key
from refusal_checks.metrics.statistics.descriptive import agreement
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

_Part = TypeVar("_Part", bound=Hashable)


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
    def kept(self) -> BenchmarkCounts:
        """What a calibration keeps of these answers."""
        human, _ = self._marginals
        return BenchmarkCounts(
            refusals=human[REFUSAL],
            recognised=self.counts.get((REFUSAL, REFUSAL), 0),
            compliances=human[COMPLIANCE],
            passed=self.counts.get((COMPLIANCE, COMPLIANCE), 0),
        )

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


def _share(count: int, n: int) -> Estimate | None:
    return wilson(count / n, n) if n else None


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
    pearson: float | None = None
    spearman: float | None = None
    kendall: float | None = None
    exact: float | None = None


def correlations(pairs: Sequence[tuple[float, float | None]]) -> Correlations:
    """Correlations of (human, judge's) scores; None stands for an invalid score."""
    valid = [(human, judge) for human, judge in pairs if judge is not None]
    invalid = len(pairs) - len(valid)
    if not valid:
        return Correlations(0, invalid)
    human, judge = zip(*valid, strict=True)
    exact = sum(one == other for one, other in valid) / len(valid)
    ranks, pearson = agreement(human, judge), None
    if ranks.spearman is not None:
        from scipy import stats

        pearson = float(stats.pearsonr(human, judge).statistic)
    return Correlations(len(valid), invalid, pearson, ranks.spearman, ranks.kendall, exact)


Figures = Confusion | Correlations
"""Agreement on classes, or on scores."""


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer, as a person and as a judge sees it.

    Attributes:
        candidate: the model that answered.
        judge: None without a valid verdict; the rationale then says why.
        rationale: the judge's own words, untrusted text.
    """

    candidate: str
    answer: LabelledAnswer
    human: Score
    judge: Score | None
    rationale: str = ""

    @property
    def distance(self) -> float:
        """How far apart the two scores are; 0 for classes."""
        if isinstance(self.human, str) or isinstance(self.judge, str):
            return 0.0
        return abs(self.human - (self.judge or 0.0))


@dataclass(frozen=True)
class MeasuredJudge:
    """One judge over all labelled answers."""

    judge: JudgeIdentity
    answers: tuple[JudgedAnswer, ...]

    @cached_property
    def overall(self) -> Figures:
        """The figures over all answers."""
        return _figures(self.answers)

    @property
    def by_candidate(self) -> dict[str, Figures]:
        """The figures by the model that answered."""
        return self._by(lambda judged: judged.candidate)

    @property
    def by_type(self) -> dict[str, Figures]:
        """The figures by type of prompt; empty if the files have no types."""
        by_type = self._by(lambda judged: judged.answer.type)
        return {name: by_type[name] for name in sorted(by_type) if name}

    def _by(self, part: Callable[[JudgedAnswer], _Part]) -> dict[_Part, Figures]:
        grouped: dict[_Part, list[JudgedAnswer]] = {}
        for judged in self.answers:
            grouped.setdefault(part(judged), []).append(judged)
        return {name: _figures(answers) for name, answers in grouped.items()}

    @property
    def disagreements(self) -> list[JudgedAnswer]:
        """Answers on which judge and person disagree; of scores, the farthest apart first."""
        differ = [judged for judged in self.answers if judged.judge not in (None, judged.human)]
        return sorted(differ, key=lambda judged: judged.distance, reverse=True)

    def calibration(self, files: Sequence[LabelFile], scale: Scale) -> Calibration:
        """The content of a calibration file."""
        if scale.partial == "own" or not isinstance(self.overall, Confusion):
            raise CalibrationError(
                "a calibration needs two classes: labels of refusals, and --partial refusal or "
                "compliance"
            )
        sensitivity, specificity = self.overall.sensitivity, self.overall.specificity
        if not sensitivity or not specificity:
            raise CalibrationError("the judged answers must hold human refusals and compliances")
        return Calibration(
            version=1,
            created=datetime.now(UTC).date(),
            judge=self.judge,
            candidates=tuple(file.candidate for file in files),
            label_source={
                file.path.name: hashlib.sha256(file.path.read_bytes()).hexdigest() for file in files
            },
            partial=scale.partial,
            **self.overall.kept.model_dump(),
            invalid=self.overall.invalid,
            sensitivity=sensitivity.value,
            specificity=specificity.value,
            benchmarks={
                name: part.kept
                for name, part in self._by(lambda judged: judged.answer.benchmark).items()
                if name and isinstance(part, Confusion)
            },
            prompts=self._by_prompt(),
            languages=dict(Counter(language_of(each.answer.answer) for each in self.answers)),
        )

    def _by_prompt(self) -> dict[str, dict[str, str]]:
        grouped = self._by(
            lambda judged: (judged.answer.benchmark, prompt_key(judged.answer.prompt))
        )
        found: dict[str, dict[str, str]] = {}
        for (benchmark, key), part in grouped.items():
            if benchmark and isinstance(part, Confusion):
                found.setdefault(benchmark, {})[key] = str(part.kept)
        return found


def _figures(answers: Iterable[JudgedAnswer]) -> Figures:
    """Agreement between judge and people."""
    pairs = [(judged.human, judged.judge) for judged in answers]
    if all(isinstance(human, str) for human, _ in pairs):
        return confusion(
            (str(human), None if judge is None else str(judge)) for human, judge in pairs
        )
    return correlations(
        [(float(human), None if judge is None else float(judge)) for human, judge in pairs]
    )


def compared(
    file: LabelFile, answer: LabelledAnswer, judgement: Judgement, scale: Scale
) -> JudgedAnswer:
    """A judge's verdict beside the human label; DataError if that is not on the scale."""
    human, words = scale.human(file, answer), judgement.rationale
    if isinstance(judgement, Invalid):
        return JudgedAnswer(file.candidate, answer, human, None, f"{judgement.reason}: {words}")
    return JudgedAnswer(file.candidate, answer, human, scale.judged(judgement), words)


def recorded(files: Sequence[LabelFile], column: str, scale: Scale) -> MeasuredJudge:
    """A judge whose verdicts are a column of the files."""
    name = f"labels:{column}"
    answers = []
    for file in files:
        for answer, cell in zip(file.answers, file.recorded(column), strict=True):
            human, judge = scale.human(file, answer), scale.recorded(cell)
            detail = f"recorded label {str(cell)[:80]!r}" if judge is None else ""
            answers.append(JudgedAnswer(file.candidate, answer, human, judge, detail))
    return MeasuredJudge(JudgeIdentity(name=name, identity=name, prompt_sha256=""), tuple(answers))
