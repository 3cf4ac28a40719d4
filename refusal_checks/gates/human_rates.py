"""What people would say of a run: the judge's rate corrected, or powered by labels of a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Invalid, Label
from refusal_checks.gates.bounds import CORRECTED, Use
from refusal_checks.gates.gate import Gate
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.prediction_powered import LEAST, prediction_powered
from refusal_checks.judges.trust.rogan_gladen import rogan_gladen
from refusal_checks.metrics import METRICS, Metric, by_prompt
from refusal_checks.metrics.statistics.intervals import Estimate

if TYPE_CHECKING:
    from refusal_checks.judges.trust.human_labels import HumanLabels


@dataclass(frozen=True)
class View:
    """A gate's figure, one way.

    Attributes:
        use: which way.
        note: what a reader must know of it, for example that a calibration is transferred.
    """

    use: Use
    estimate: Estimate
    note: str = ""


@dataclass(frozen=True)
class HumanRates:
    """What a run knows of people's verdicts on its answers.

    Attributes:
        calibration: of the run's judge.
        transferred: whose answers it was made on, where not on this run's candidate's.
        labels: of a random part of the run's answers.
        level: of the intervals.
    """

    calibration: Calibration | None = None
    transferred: str = ""
    labels: HumanLabels | None = None
    level: float = 0.95

    def views(self, gate: Gate, records: Sequence[Record]) -> tuple[View, ...]:
        """The raw rate and, beside it, those as people would see them; empty without any of these.

        Args:
            records: those that the gate looks at.

        Raises:
            EvaluationError: no answer has a valid verdict.
        """
        metric = METRICS[gate.metric]
        # Human labels are refusal or compliance, as are Binary verdicts.
        of_labels = (Binary in metric.reads and metric.blurred) and any(
            isinstance(record.judgement, Binary) for record in records
        )
        found: list[View] = []
        if self.calibration and of_labels and gate.metric == CORRECTED:
            estimate = corrected(records, self.calibration, self.level)
            found.append(View("corrected", estimate, self._note(records)))
        if self.labels and of_labels and gate.use != "corrected":
            found += self._powered(self.labels, metric, gate, records)
        return (View("raw", metric.estimate(records, self.level)), *found) if found else ()

    def _note(self, records: Sequence[Record]) -> str:
        several = any(len(answers) > 1 for answers in by_prompt(records).values())
        notes = ["share of answers"] if several else []
        if self.transferred:
            notes.append(f"transferred: calibrated on answers of {self.transferred}")
        return ", ".join(notes)

    def _powered(
        self, labels: HumanLabels, metric: Metric, gate: Gate, records: Sequence[Record]
    ) -> list[View]:
        human = labels.relabelled(gate.benchmark, records)
        if len(human) < LEAST:
            return []
        estimate = powered(metric, records, human, self.level)
        return [View("human", estimate, f"human labels of {len(human)} prompts")]

    def used(self, gate: Gate, views: Sequence[View]) -> View | None:
        """The view that decides a gate; None for the judge's figure, however that is estimated."""
        wanted = gate.use or "human"
        return next((view for view in views if view.use == wanted and wanted != "raw"), None)


def corrected(records: Sequence[Record], calibration: Calibration, level: float) -> Estimate:
    """The share of answers that people would call refusals, averaged over prompts; n = prompts.

    A calibration is of single answers, so it is their share that is corrected: with one answer a
    prompt this is the rejection rate. A mean of shares varies no more than a yes-no answer, so the
    interval is conservative for several.

    Raises:
        EvaluationError: no answer has a valid verdict.
        CalibrationError: the judge carries no information.
    """
    shares = [
        share for answers in by_prompt(records).values() if (share := _refused(answers)) is not None
    ]
    if not shares:
        raise EvaluationError(f"corrected rate: no valid verdict among {len(records)} answers")
    return rogan_gladen(sum(shares) / len(shares), len(shares), calibration.errors, level)


def _refused(answers: Sequence[Record]) -> float | None:
    labels = [r.judgement.label for r in answers if isinstance(r.judgement, Binary)]
    return sum(label is Label.REFUSAL for label in labels) / len(labels) if labels else None


def powered(
    metric: Metric, records: Sequence[Record], human: Mapping[str, Sequence[Record]], level: float
) -> Estimate:
    """A metric as people would see it: the judge's verdicts on all prompts, people's on some.

    Args:
        human: the labelled prompts' records with the people's verdicts, by prompt id
            (``HumanLabels.relabelled``); a random part of all.

    Raises:
        EvaluationError: too few labels, or no valid verdict.
    """
    judged = metric.scores([r for r in records if not isinstance(r.judgement, Invalid)])
    said = {id: metric.score(answers) for id, answers in human.items()}

    def value(score: float) -> float:
        return score if metric.counts is None else float(metric.counts(score))

    both = [(value(score), value(judged[id])) for id, score in said.items()
            if score is not None and id in judged]  # fmt: skip
    rest = [value(score) for id, score in judged.items() if id not in said]
    people, judge = [pair[0] for pair in both], [pair[1] for pair in both]
    return prediction_powered(people, judge, rest, level)
