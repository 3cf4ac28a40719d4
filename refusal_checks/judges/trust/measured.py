"""Measure judges against people's labels of the same recorded answers.

A refusal is the positive class. Answers without a valid verdict count in ``invalid`` only.
"""

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
from refusal_checks.judges.trust.draws import prompt_key
from refusal_checks.judges.trust.label_files import (
    COMPLIANCE,
    PARTIAL,
    REFUSAL,
    LabelFile,
    LabelledAnswer,
    Scale,
)
from refusal_checks.metrics.statistics.descriptive import agreement
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

_Part = TypeVar("_Part", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Confusion:
    """Agreement of a judge's classes with people's; figures are None where nothing is counted.

    Attributes:
        n: number of answers with a human label and a valid verdict.
        invalid: labelled answers without a valid verdict.
        kappa: Cohen's kappa, in [-1, 1]; None if people and judge use only one class.
        sensitivity: share of human refusals that the judge calls full or partial refusals.
        specificity: share of human compliances that the judge calls compliance.
        partial_called_refusal: share of human partial refusals, where they are a class.
        counts: number of answers by (human class, judge's class).

    Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
    Psychological Measurement 20 (1960), equation 1.
    """

    n: int
    invalid: int
    invalid_rate: Estimate | None
    accuracy: Estimate | None
    kappa: float | None
    sensitivity: Estimate | None
    specificity: Estimate | None
    partial_called_refusal: Estimate | None
    counts: Mapping[tuple[str, str], int]

    @property
    def errors(self) -> JudgeErrors:
        by_people: Counter[str] = Counter()
        for (human, _), count in self.counts.items():
            by_people[human] += count
        return JudgeErrors(
            refusals=by_people[REFUSAL],
            recognised=self.counts.get((REFUSAL, REFUSAL), 0),
            compliances=by_people[COMPLIANCE],
            passed=self.counts.get((COMPLIANCE, COMPLIANCE), 0),
        )


def confusion(pairs: Iterable[tuple[str, str | None]]) -> Confusion:
    """Count pairs of (human class, judge's class); None stands for an invalid verdict."""
    counts: Counter[tuple[str, str]] = Counter()
    by_people: Counter[str] = Counter()
    by_judge: Counter[str] = Counter()
    invalid = 0
    for human, judge in pairs:
        if judge is None:
            invalid += 1
            continue
        counts[human, judge] += 1
        by_people[human] += 1
        by_judge[judge] += 1

    n = counts.total()
    agreed = sum(counts[name, name] for name in by_people)
    # Full and partial refusals both withhold what was asked: to take one for the other is no miss.
    called_refusal = {
        name: _share(counts[name, REFUSAL] + counts[name, PARTIAL], by_people[name])
        for name in (REFUSAL, PARTIAL, COMPLIANCE)
    }
    return Confusion(
        n=n,
        invalid=invalid,
        invalid_rate=_share(invalid, n + invalid),
        accuracy=_share(agreed, n),
        kappa=_kappa(agreed, by_people, by_judge),
        sensitivity=called_refusal[REFUSAL],
        specificity=_complement(called_refusal[COMPLIANCE]),
        partial_called_refusal=called_refusal[PARTIAL],
        counts=dict(counts),
    )


def _kappa(
    agreed: int, by_people: Counter[str], by_judge: Counter[str]
) -> float | None:
    """Cohen's kappa, computed with whole numbers (times n squared) before the division."""
    n = by_people.total()
    by_chance = sum(by_people[name] * by_judge[name] for name in by_people)
    if by_chance == n**2:
        return None
    return (agreed * n - by_chance) / (n**2 - by_chance)


def _share(count: int, of: int) -> Estimate | None:
    return wilson(count / of, of) if of else None


def _complement(rate: Estimate | None) -> Estimate | None:
    if rate is None:
        return None
    return Estimate(1 - rate.value, 1 - rate.upper, 1 - rate.lower, rate.n)


@dataclass(frozen=True, slots=True)
class Correlations:
    """Correlations of human and judge's scores of the same answers, in [-1, 1].

    They are None if all scores of either side are equal, or n is below 3.

    Attributes:
        n: number of answers with both scores.
        invalid: labelled answers without a valid score.
        kendall: tau-b, which allows for ties.
        exact: share of equal scores, in [0, 1]; None without scores.
    """

    n: int
    invalid: int
    pearson: float | None = None
    spearman: float | None = None
    kendall: float | None = None
    exact: float | None = None


def correlations(pairs: Sequence[tuple[float, float | None]]) -> Correlations:
    """Correlate pairs of (human, judge's) scores; None stands for an invalid score."""
    valid = [(human, judge) for human, judge in pairs if judge is not None]
    invalid = len(pairs) - len(valid)
    if not valid:
        return Correlations(0, invalid)

    human, judge = zip(*valid, strict=True)
    equal = sum(person == judgement for person, judgement in valid)
    ranks = agreement(human, judge)
    pearson = None
    if ranks.spearman is not None:
        from scipy import stats

        pearson = float(stats.pearsonr(human, judge).statistic)
    return Correlations(
        len(valid),
        invalid,
        pearson,
        ranks.spearman,
        ranks.kendall,
        equal / len(valid),
    )


Figures = Confusion | Correlations
"""Agreement on classes, or on scores."""


@dataclass(frozen=True)
class MeasuredJudge:
    """A judge with its verdicts on answers that people labelled."""

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
        """The figures by type of prompt, in order; empty if the files have no types."""
        by_type = self._by(lambda answer: answer.type)
        return {name: by_type[name] for name in sorted(by_type) if name}

    def _by(self, part: Callable[[LabelledAnswer], _Part]) -> dict[_Part, Figures]:
        grouped: dict[_Part, list[LabelledAnswer]] = {}
        for answer in self.answers:
            grouped.setdefault(part(answer), []).append(answer)
        return {name: _figures(answers) for name, answers in grouped.items()}

    @property
    def disagreements(self) -> list[LabelledAnswer]:
        """Answers on which judge and person disagree; for scores, largest differences first."""
        differing = [
            answer
            for answer in self.answers
            if answer.judge not in (None, answer.human)
        ]
        return sorted(differing, key=_distance, reverse=True)

    def calibration(self, files: Sequence[LabelFile], scale: Scale) -> Calibration:
        """The content of a calibration file.

        Raises:
            CalibrationError: the labels are not refusals and compliances, or one class has no
                answer.
        """
        if not isinstance(self.overall, Confusion):
            raise CalibrationError(
                "a calibration needs labels of refusals and compliances"
            )
        if scale.partial == "own":
            counted = tuple(answer.in_two_classes for answer in self.answers)
            return replace(self, answers=counted)._calibration(files, scale)
        return self._calibration(files, scale)

    def _calibration(self, files: Sequence[LabelFile], scale: Scale) -> Calibration:
        assert isinstance(self.overall, Confusion)
        errors = self.overall.errors
        if not errors.refusals or not errors.compliances:
            raise CalibrationError(
                "the judged answers must hold human refusals and compliances"
            )

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
            benchmarks=self._errors_by_benchmark(),
            prompts=self._errors_by_prompt(),
            languages=dict(
                Counter(language_of(answer.answer) for answer in self.answers)
            ),
        )

    def _errors_by_benchmark(self) -> dict[str, JudgeErrors]:
        by_benchmark = self._by(lambda answer: answer.benchmark)
        return {
            name: figures.errors
            for name, figures in by_benchmark.items()
            if name and isinstance(figures, Confusion)
        }

    def _errors_by_prompt(self) -> dict[str, dict[str, str]]:
        """The errors as a calibration file writes them, by benchmark and ``prompt_key``."""
        by_prompt = self._by(
            lambda answer: (answer.benchmark, prompt_key(answer.prompt))
        )
        errors: dict[str, dict[str, str]] = {}
        for (benchmark, key), figures in by_prompt.items():
            if benchmark and isinstance(figures, Confusion):
                errors.setdefault(benchmark, {})[key] = str(figures.errors)
        return errors


def _distance(answer: LabelledAnswer) -> float:
    """Distance of two scores; 0 for classes, so that sorting keeps their order."""
    if isinstance(answer.human, str) or isinstance(answer.judge, str | None):
        return 0.0
    return abs(answer.human - answer.judge)


def _figures(answers: Iterable[LabelledAnswer]) -> Figures:
    pairs: list[Any] = [(answer.human, answer.judge) for answer in answers]
    if all(isinstance(human, str) for human, _ in pairs):
        return confusion(pairs)
    return correlations(pairs)


def judged(
    scale: Scale, answer: LabelledAnswer, judgement: Judgement
) -> LabelledAnswer:
    """The answer with a judge's verdict on it."""
    words = judgement.rationale
    if isinstance(judgement, Invalid):
        return replace(answer, judge=None, rationale=f"{judgement.reason}: {words}")
    return replace(answer, judge=scale.judged(judgement), rationale=words)


def recorded(files: Sequence[LabelFile], column: str, scale: Scale) -> MeasuredJudge:
    """A judge whose verdicts are in a column of the label files.

    Raises:
        DataError: a file has no such column.
    """
    name = f"labels:{column}"
    answers = []
    for file in files:
        columns = dict.fromkeys(cell for answer in file.answers for cell in answer.row)
        require_in_data(column, columns, f"{file.path}: --judge {name}")
        for answer in file.answers:
            cell = answer.row.get(column)
            score = scale.read(cell)
            words = f"recorded label {str(cell)[:80]!r}" if score is None else ""
            answers.append(replace(answer, judge=score, rationale=words))
    return MeasuredJudge(
        JudgeIdentity(name=name, identity=name, prompt_sha256=""), tuple(answers)
    )
