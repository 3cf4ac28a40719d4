"""A judge measured against people's labels of the same answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Literal

from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.verdicts import Invalid, Judgement
from refusal_checks.judges.trust import label_files
from refusal_checks.judges.trust.calibration import Calibration, JudgeIdentity
from refusal_checks.judges.trust.confusion import COMPLIANCE, REFUSAL, Confusion, Correlations
from refusal_checks.judges.trust.confusion import confusion as table
from refusal_checks.judges.trust.confusion import correlations as correlate
from refusal_checks.judges.trust.label_files import LabelFile, LabelledAnswer, Partial

Scale = Literal["refusal", "degree", "rating"]
"""What the labels say, and the module of ``judges`` that judges so."""

Said = str | float
"""A class of ``quality``, or a score."""


@dataclass(frozen=True)
class Judged:
    """One answer, by a person and by a judge.

    Attributes:
        judge: None where there is no valid verdict; the rationale then says why.
        rationale: the judge's own words, untrusted text.
    """

    candidate: str
    answer: LabelledAnswer
    human: Said
    judge: Said | None
    rationale: str = ""


@dataclass(frozen=True)
class Measured:
    """One judge over all answers."""

    judge: JudgeIdentity
    answers: tuple[Judged, ...]

    @cached_property
    def overall(self) -> Confusion | Correlations:
        """The figures over all answers."""
        return figures(self.answers)

    def by(self, part: Callable[[Judged], str]) -> dict[str, Confusion | Correlations]:
        """The figures by a part of the answers."""
        grouped: dict[str, list[Judged]] = {}
        for judged in self.answers:
            grouped.setdefault(part(judged), []).append(judged)
        return {name: figures(found) for name, found in grouped.items()}

    @property
    def by_candidate(self) -> dict[str, Confusion | Correlations]:
        """The figures by the model that answered."""
        return self.by(lambda judged: judged.candidate)

    @property
    def by_type(self) -> dict[str, Confusion | Correlations]:
        """The figures by type of prompt; empty where the files have none."""
        found = self.by(lambda judged: judged.answer.type)
        return {name: found[name] for name in sorted(found) if name}

    @property
    def disagreements(self) -> list[Judged]:
        """Answers of which the judge said something else than the person; scores: worst first."""
        found = [judged for judged in self.answers if judged.judge not in (None, judged.human)]
        return sorted(found, key=_distance, reverse=True)

    def calibration(self, files: Sequence[LabelFile], partial: Partial) -> Calibration:
        """The calibration file's content.

        Raises:
            CalibrationError: the labels are no classes, or one class is missing.
        """
        if partial == "own" or not isinstance(self.overall, Confusion):
            raise CalibrationError(
                "a calibration needs two classes: labels of refusals, and --partial refusal or "
                "compliance"
            )
        found, counts = self.overall, self.overall.counts
        if not found.sensitivity or not found.specificity:
            raise CalibrationError("the judged answers must hold human refusals and compliances")
        return Calibration(
            version=1,
            created=datetime.now(UTC).date(),
            judge=self.judge,
            candidates=tuple(file.candidate for file in files),
            label_source={file.path.name: _sha256(file.path) for file in files},
            partial=partial,
            refusals=found.sensitivity.n,
            recognised=counts.get((REFUSAL, REFUSAL), 0),
            compliances=found.specificity.n,
            passed=counts.get((COMPLIANCE, COMPLIANCE), 0),
            invalid=found.invalid,
            sensitivity=found.sensitivity.value,
            specificity=found.specificity.value,
        )


def figures(answers: Iterable[Judged]) -> Confusion | Correlations:
    """Agreement of classes, or correlations of scores."""
    pairs = [(judged.human, judged.judge) for judged in answers]
    if all(isinstance(human, str) for human, _ in pairs):
        return table((str(human), None if judge is None else str(judge)) for human, judge in pairs)
    return correlate(
        [(float(human), None if judge is None else float(judge)) for human, judge in pairs]
    )


def recorded(files: Sequence[LabelFile], column: str, scale: Scale, partial: Partial) -> Measured:
    """A judge whose verdicts stand in a column of the files.

    Raises:
        DataError: a file has no such column, or a human label that is unknown.
    """
    known = label_files.classes(partial)

    def judged(file: LabelFile, answer: LabelledAnswer, cell: object) -> Judged:
        said: Said | None = label_files.number(cell)
        if scale == "refusal":
            said = known.get(str(cell).strip().lower())
        detail = "" if said is not None else f"recorded label {str(cell)[:80]!r}"
        return Judged(file.candidate, answer, _human(file, answer, scale, known), said, detail)

    name = f"labels:{column}"
    answers = [
        judged(file, answer, cell)
        for file in files
        for answer, cell in zip(file.answers, file.recorded(column), strict=True)
    ]
    return Measured(JudgeIdentity(name=name, identity=name, prompt_sha256=""), tuple(answers))


def _human(file: LabelFile, answer: LabelledAnswer, scale: Scale, known: Mapping[str, str]) -> Said:
    if scale == "refusal":
        return label_files.human_class(file, answer, known)
    return label_files.human_score(file, answer)


def _judged(file: LabelFile, answer: LabelledAnswer, human: Said, judgement: Judgement) -> Judged:
    if isinstance(judgement, Invalid):
        detail = f"{judgement.reason}: {judgement.detail}"
        return Judged(file.candidate, answer, human, None, detail)
    verdict = judgement.verdict if isinstance(human, str) else judgement.score
    return Judged(file.candidate, answer, human, verdict, judgement.rationale)


def _distance(judged: Judged) -> float:
    if isinstance(judged.human, str) or isinstance(judged.judge, str):
        return 0.0
    return abs(judged.human - (judged.judge or 0.0))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
