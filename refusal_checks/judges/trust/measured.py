"""A judge measured against people's labels of the same answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.judges.trust.calibration import (
    BenchmarkCounts,
    Calibration,
    JudgeIdentity,
)
from refusal_checks.judges.trust.confusion import (
    COMPLIANCE,
    REFUSAL,
    Confusion,
    Correlations,
    confusion,
    correlations,
)
from refusal_checks.judges.trust.label_files import LabelFile, LabelledAnswer
from refusal_checks.judges.trust.scale import Scale, Value

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
    human: Value
    judge: Value | None
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
        return figures(self.answers)

    @property
    def by_candidate(self) -> dict[str, Figures]:
        """The figures by the model that answered."""
        return self._by(lambda judged: judged.candidate)

    @property
    def by_type(self) -> dict[str, Figures]:
        """The figures by type of prompt; empty if the files have no types."""
        by_type = self._by(lambda judged: judged.answer.type)
        return {name: by_type[name] for name in sorted(by_type) if name}

    def _by(self, part: Callable[[JudgedAnswer], str]) -> dict[str, Figures]:
        grouped: dict[str, list[JudgedAnswer]] = {}
        for judged in self.answers:
            grouped.setdefault(part(judged), []).append(judged)
        return {name: figures(answers) for name, answers in grouped.items()}

    @property
    def disagreements(self) -> list[JudgedAnswer]:
        """Answers on which judge and person disagree; of scores, the farthest apart first."""
        differ = [judged for judged in self.answers if judged.judge not in (None, judged.human)]
        return sorted(differ, key=lambda judged: judged.distance, reverse=True)

    def calibration(self, files: Sequence[LabelFile], scale: Scale) -> Calibration:
        """The content of a calibration file.

        Raises:
            CalibrationError: the labels are not two classes, or one of the two is missing.
        """
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
            refusals=sensitivity.n,
            recognised=self.overall.counts.get((REFUSAL, REFUSAL), 0),
            compliances=specificity.n,
            passed=self.overall.counts.get((COMPLIANCE, COMPLIANCE), 0),
            invalid=self.overall.invalid,
            sensitivity=sensitivity.value,
            specificity=specificity.value,
            benchmarks={
                name: _counts(part)
                for name, part in self._by(lambda judged: judged.answer.benchmark).items()
                if name and isinstance(part, Confusion)
            },
        )


def _counts(figures: Confusion) -> BenchmarkCounts:
    """What a calibration keeps of a benchmark's answers."""
    of_refusals, of_compliances = figures.sensitivity, figures.specificity
    return BenchmarkCounts(
        refusals=of_refusals.n if of_refusals else 0,
        recognised=figures.counts.get((REFUSAL, REFUSAL), 0),
        compliances=of_compliances.n if of_compliances else 0,
        passed=figures.counts.get((COMPLIANCE, COMPLIANCE), 0),
    )


def figures(answers: Iterable[JudgedAnswer]) -> Figures:
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
    """A judge's verdict beside the human label.

    Raises:
        DataError: the human label is not on the scale.
    """
    human, words = scale.human(file, answer), judgement.rationale
    if isinstance(judgement, Invalid):
        return JudgedAnswer(file.candidate, answer, human, None, f"{judgement.reason}: {words}")
    return JudgedAnswer(file.candidate, answer, human, scale.judged(judgement), words)


def recorded(files: Sequence[LabelFile], column: str, scale: Scale) -> MeasuredJudge:
    """A judge whose verdicts are a column of the files.

    Raises:
        DataError: a file has no such column, or a human label is not on the scale.
    """
    name = f"labels:{column}"
    answers = []
    for file in files:
        for answer, cell in zip(file.answers, file.recorded(column), strict=True):
            human, judge = scale.human(file, answer), scale.recorded(cell)
            detail = f"recorded label {str(cell)[:80]!r}" if judge is None else ""
            answers.append(JudgedAnswer(file.candidate, answer, human, judge, detail))
    return MeasuredJudge(JudgeIdentity(name=name, identity=name, prompt_sha256=""), tuple(answers))
