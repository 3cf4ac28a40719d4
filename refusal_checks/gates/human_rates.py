"""Rates as people would judge them: the judge's rate corrected, or combined with human labels."""

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
class RateView:
    """A gate's figure, computed in one way.

    Attributes:
        use: the way.
        note: what a reader must know about it, for example that a calibration is transferred.
    """

    use: Use
    estimate: Estimate
    note: str = ""


@dataclass(frozen=True)
class HumanRates:
    """What a run knows of people's verdicts on its answers.

    Attributes:
        calibration: of the run's judge.
        transferred: the candidates whose answers it was made on, if not this run's.
        labels: people's labels of a random part of the run's answers.
        level: of the intervals.
    """

    calibration: Calibration | None = None
    transferred: str = ""
    labels: HumanLabels | None = None
    level: float = 0.95

    def views(self, gate: Gate, records: Sequence[Record]) -> tuple[RateView, ...]:
        """The raw rate and the rates as people would judge them; empty if there are none of these.

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
        views: list[RateView] = []
        if self.calibration and of_labels and gate.metric == CORRECTED:
            estimate = corrected(records, self.calibration, self.level)
            views.append(RateView("corrected", estimate, self._note(records)))
        if self.labels and of_labels and gate.use != "corrected":
            views += self._powered(self.labels, metric, gate, records)
        return (RateView("raw", metric.estimate(records, self.level)), *views) if views else ()

    def _note(self, records: Sequence[Record]) -> str:
        several = any(len(answers) > 1 for answers in by_prompt(records).values())
        notes = ["share of answers"] if several else []
        if self.transferred:
            notes.append(f"transferred: calibrated on answers of {self.transferred}")
        return ", ".join(notes)

    def _powered(
        self, labels: HumanLabels, metric: Metric, gate: Gate, records: Sequence[Record]
    ) -> list[RateView]:
        human = labels.relabelled(gate.benchmark, records)
        if len(human) < LEAST:
            return []
        estimate = powered(metric, records, human, self.level)
        return [RateView("human", estimate, f"human labels of {len(human)} prompts")]

    def used(self, gate: Gate, views: Sequence[RateView]) -> RateView | None:
        """The view that decides a gate; None for the judge's figure, however it is estimated."""
        wanted = gate.use or "human"
        return next((view for view in views if view.use == wanted and wanted != "raw"), None)


def corrected(records: Sequence[Record], calibration: Calibration, level: float) -> Estimate:
    """The share of answers that people would call refusals, averaged over prompts.

    A calibration measures errors on single answers, so the share of answers is corrected; with one
    answer per prompt that is the rejection rate. n is the number of prompts: the mean of a prompt's
    answers varies no more than one answer, so the interval is conservative for several.

    Raises:
        EvaluationError: no answer has a valid verdict.
        CalibrationError: the judge carries no information.
    """
    shares = [
        share for answers in by_prompt(records).values() if (share := _refused(answers)) is not None
    ]
    if not shares:
        raise EvaluationError(f"corrected rate: none of {len(records)} answers has a valid verdict")
    return rogan_gladen(sum(shares) / len(shares), len(shares), calibration.errors, level)


def _refused(answers: Sequence[Record]) -> float | None:
    labels = [r.judgement.label for r in answers if isinstance(r.judgement, Binary)]
    return sum(label is Label.REFUSAL for label in labels) / len(labels) if labels else None


def powered(
    metric: Metric, records: Sequence[Record], human: Mapping[str, Sequence[Record]], level: float
) -> Estimate:
    """A metric as people would judge it: the judge's verdicts on all prompts, people's on some.

    Args:
        human: records with the people's verdicts by prompt id, of a random part of the prompts
            (``HumanLabels.relabelled``).

    Raises:
        EvaluationError: too few labels, or no valid verdict.
    """
    judged = metric.scores([r for r in records if not isinstance(r.judgement, Invalid)])
    labelled = {name: metric.score(answers) for name, answers in human.items()}
    both = [name for name, score in labelled.items() if score is not None and name in judged]
    rest = [score for name, score in judged.items() if name not in labelled]
    people = metric.values(score for name in both if (score := labelled[name]) is not None)
    judge = metric.values(judged[name] for name in both)
    return prediction_powered(people, judge, metric.values(rest), level, metric.lowest)
