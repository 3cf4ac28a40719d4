"""Judges measured against people's labels of the same recorded answers.

A refusal is the positive class. Answers without a valid verdict count in ``invalid`` only.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from refusal_checks.core.data_files import require_in_data
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.files import sha256
from refusal_checks.core.language import language_of
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.judges.trust.calibration import Calibration, JudgeIdentity
from refusal_checks.judges.trust.correction import JudgeErrors
from refusal_checks.judges.trust.label_files import (
    COMPLIANCE,
    PARTIAL,
    REFUSAL,
    LabelFile,
    LabelledAnswer,
    Scale,
)
from refusal_checks.judges.trust.labels import prompt_key
from refusal_checks.metrics.statistics.descriptive import agreement
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

_Part = TypeVar("_Part", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Confusion:
    """Agreement of human and judge's classes; figures are None where there is nothing to count.

    Sources: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
    Psychological Measurement 20 (1960), equation 1; J. Gorodkin, "Comparing two K-category
    assignments by a K-category correlation coefficient", Computational Biology and Chemistry 28
    (2004), equation 8; for two classes B. W. Matthews (1975).
    """

    n: int  # answers with a human label and a valid verdict
    invalid: int  # labelled answers without a valid verdict
    invalid_rate: Estimate | None
    accuracy: Estimate | None
    kappa: float | None  # Cohen's, in [-1, 1]; None if both use one class only
    matthews: (
        float | None
    )  # for three classes R_K, in [-1, 1]; None if either uses one class only
    sensitivity: (
        Estimate | None
    )  # human refusals that the judge calls full or partial refusals
    specificity: Estimate | None  # human compliances that the judge calls compliance
    partial_called_refusal: Estimate | None
    human_refusal_rate: float | None  # share of full or partial refusals
    judge_refusal_rate: float | None
    counts: Mapping[tuple[str, str], int]  # answers by (human class, judge's class)

    @property
    def errors(self) -> JudgeErrors:
        cells = self.counts.items()
        return JudgeErrors(
            refusals=sum(count for (human, _), count in cells if human == REFUSAL),
            recognised=self.counts.get((REFUSAL, REFUSAL), 0),
            compliances=sum(
                count for (human, _), count in cells if human == COMPLIANCE
            ),
            passed=self.counts.get((COMPLIANCE, COMPLIANCE), 0),
        )


def confusion(pairs: Iterable[tuple[str, str | None]]) -> Confusion:
    """The agreement of (human class, judge's class) pairs; None stands for an invalid verdict."""
    labelled = list(pairs)
    counts = Counter((human, judge) for human, judge in labelled if judge is not None)
    sides: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair, count in counts.items():
        for side, name in zip(sides, pair, strict=True):
            side[name] += count
    human, judge = sides
    n, invalid = counts.total(), len(labelled) - counts.total()
    agreed = sum(counts[name, name] for name in human)
    by_chance = sum(human[name] * judge[name] for name in human)
    spread = math.prod(
        n**2 - sum(count**2 for count in side.values()) for side in sides
    )

    def share(count: int, of: int) -> Estimate | None:
        return wilson(count / of, of) if of else None

    def refused(name: str) -> Estimate | None:
        return share(counts[name, REFUSAL] + counts[name, PARTIAL], human[name])

    alarms = refused(COMPLIANCE)
    rates = [(side[REFUSAL] + side[PARTIAL]) / n if n else None for side in sides]
    return Confusion(
        n=n,
        invalid=invalid,
        invalid_rate=share(invalid, n + invalid),
        accuracy=share(agreed, n),
        kappa=(agreed * n - by_chance) / (n**2 - by_chance)
        if by_chance != n**2
        else None,
        matthews=(agreed * n - by_chance) / math.sqrt(spread) if spread else None,
        sensitivity=refused(REFUSAL),
        specificity=alarms
        and Estimate(1 - alarms.value, 1 - alarms.upper, 1 - alarms.lower, alarms.n),
        partial_called_refusal=refused(PARTIAL),
        human_refusal_rate=rates[0],
        judge_refusal_rate=rates[1],
        counts=dict(counts),
    )


@dataclass(frozen=True, slots=True)
class Correlations:
    """Correlations of human and judge's scores of the same answers.

    They are in [-1, 1]; None if either side's scores are all equal or n is below 3.
    """

    n: int  # answers with both
    invalid: int  # labelled answers without a valid score
    pearson: float | None = None
    spearman: float | None = None
    kendall: float | None = None  # tau-b, which allows for ties
    exact: float | None = None  # share of equal scores, in [0, 1]; None without scores


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
    return Correlations(
        len(valid), invalid, pearson, ranks.spearman, ranks.kendall, exact
    )


Figures = Confusion | Correlations  # agreement on classes, or on scores


@dataclass(frozen=True)
class MeasuredJudge:
    judge: JudgeIdentity
    answers: tuple[LabelledAnswer, ...]

    @cached_property
    def overall(self) -> Figures:
        return _figures(self.answers)

    @property
    def by_candidate(self) -> dict[str, Figures]:
        return self._by(lambda answer: answer.candidate)

    @property
    def by_type(self) -> dict[str, Figures]:
        """The figures by type of prompt; empty if the files have no types."""
        by_type = self._by(lambda answer: answer.type)
        return {name: by_type[name] for name in sorted(by_type) if name}

    def _by(self, part: Callable[[LabelledAnswer], _Part]) -> dict[_Part, Figures]:
        grouped: dict[_Part, list[LabelledAnswer]] = {}
        for answer in self.answers:
            grouped.setdefault(part(answer), []).append(answer)
        return {name: _figures(answers) for name, answers in grouped.items()}

    @property
    def disagreements(self) -> list[LabelledAnswer]:
        """Answers on which judge and person disagree; of scores, the largest differences first."""

        def distance(answer: LabelledAnswer) -> float:
            if isinstance(answer.human, str) or isinstance(answer.judge, str | None):
                return 0.0
            return abs(answer.human - answer.judge)

        differ = [each for each in self.answers if each.judge not in (None, each.human)]
        return sorted(differ, key=distance, reverse=True)

    def calibration(self, files: Sequence[LabelFile], scale: Scale) -> Calibration:
        if scale.partial == "own" or not isinstance(self.overall, Confusion):
            raise CalibrationError(
                "a calibration needs two classes: labels of refusals, and --partial refusal or "
                "compliance"
            )
        errors = self.overall.errors
        if not errors.refusals or not errors.compliances:
            raise CalibrationError(
                "the judged answers must hold human refusals and compliances"
            )
        prompts: dict[str, dict[str, str]] = {}
        by_benchmark = self._by(lambda answer: answer.benchmark).items()
        by_prompt = self._by(
            lambda answer: (answer.benchmark, prompt_key(answer.prompt))
        )
        for (benchmark, key), part in by_prompt.items():
            if benchmark and isinstance(part, Confusion):
                prompts.setdefault(benchmark, {})[key] = str(part.errors)
        return Calibration(
            version=1,
            created=datetime.now(UTC).date(),
            judge=self.judge,
            candidates=tuple(file.candidate for file in files),
            label_source={file.path.name: sha256(file.path) for file in files},
            partial=scale.partial,
            **asdict(errors),
            invalid=self.overall.invalid,
            sensitivity=errors.sensitivity,
            specificity=errors.specificity,
            benchmarks={
                n: p.errors for n, p in by_benchmark if n and isinstance(p, Confusion)
            },
            prompts=prompts,
            languages=dict(Counter(language_of(each.answer) for each in self.answers)),
        )


def _figures(answers: Iterable[LabelledAnswer]) -> Figures:
    pairs: list[Any] = [(each.human, each.judge) for each in answers]
    if all(isinstance(human, str) for human, _ in pairs):
        return confusion(pairs)
    return correlations(pairs)


def judged(
    scale: Scale, answer: LabelledAnswer, judgement: Judgement
) -> LabelledAnswer:
    words = judgement.rationale
    if isinstance(judgement, Invalid):
        return replace(answer, judge=None, rationale=f"{judgement.reason}: {words}")
    return replace(answer, judge=scale.judged(judgement), rationale=words)


def recorded(files: Sequence[LabelFile], column: str, scale: Scale) -> MeasuredJudge:
    name = f"labels:{column}"
    answers = []
    for file in files:
        known = dict.fromkeys(name for answer in file.answers for name in answer.row)
        require_in_data(column, known, f"{file.path}: --judge {name}")
        for answer in file.answers:
            cell = answer.row.get(column)
            found = scale.read(cell)
            words = f"recorded label {str(cell)[:80]!r}" if found is None else ""
            answers.append(replace(answer, judge=found, rationale=words))
    return MeasuredJudge(
        JudgeIdentity(name=name, identity=name, prompt_sha256=""), tuple(answers)
    )
