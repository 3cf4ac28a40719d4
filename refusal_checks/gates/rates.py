"""What a run knows about answers besides its judge's verdicts, and the rates that follow.

The judge's own verdicts give the ``raw`` rate. Two others are closer to what people would say: the
rate ``corrected`` by a calibration of the judge, and the one that combines it with ``human`` labels
of some answers. ``Evidence.rate`` decides once which of them a gate rests on: its figure, its worst
cases, the prompts compared with an earlier run and its sentence all come from one ``EstimateSet``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.estimate_set import EstimateSet, EstimateVariant
from refusal_checks.gates.gate import CORRECTED, Gate, Use
from refusal_checks.gates.paired_scores import labelled, need_of, spread
from refusal_checks.judges.trust import correction
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.correction import LEAST, JudgeErrors
from refusal_checks.judges.trust.draws import prompt_keys
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.judges.trust.labels import BenchmarkLabels
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class Evidence:
    """What a run knows about a benchmark's answers besides its judge's verdicts.

    Attributes:
        candidate: the model that answered, as calibrations name it.
        check: the judge's result on the canary.
    """

    calibration: Calibration | None = None
    candidate: str = ""
    labels: BenchmarkLabels | None = None
    check: JudgeCheck | None = None

    def rate(
        self, gate: Gate, records: Sequence[Record], level: float = 0.95
    ) -> EstimateSet:
        """A gate's figure over the records that it covers, with the variant that decides."""
        metric = METRICS[gate.metric]
        views = tuple(self._views(metric, gate, records, level))
        used = _deciding(views, gate.use)
        people = {}
        if used and self.labels:
            people = self.labels.scores(metric, records)
        misread = ""
        if self.check and metric.blurred and not used:
            misread = self.check.misread(records)
        return EstimateSet(metric, records, views, used, people, misread)

    def _views(
        self, metric: Metric, gate: Gate, records: Sequence[Record], level: float
    ) -> list[EstimateVariant]:
        """The raw rate and the others; empty if there are no others."""
        # Human labels are refusal or compliance, as are Binary verdicts.
        is_refusal = Binary in metric.reads and metric.blurred
        if not is_refusal or not any(isinstance(r.judgement, Binary) for r in records):
            return []
        others: list[EstimateVariant | str] = []  # a text says why there is none
        if self.calibration and gate.metric == CORRECTED:
            try:
                others.append(self._corrected(self.calibration, gate, records, level))
            except CalibrationError as fault:
                if gate.use == "corrected":
                    raise EvaluationError(str(fault)) from None
                others.append(f"no corrected rate: {fault}")
        if self.labels and self.labels.draws and gate.use != "corrected":
            others.append(labelled(self.labels.of(records), gate, records, level))
        if not others:
            return []
        notes = "; ".join(item for item in others if isinstance(item, str))
        raw = EstimateVariant("raw", metric.estimate(records, level), notes)
        return [raw, *(item for item in others if isinstance(item, EstimateVariant))]

    def _corrected(
        self,
        calibration: Calibration,
        gate: Gate,
        records: Sequence[Record],
        level: float,
    ) -> EstimateVariant:
        require_single(max(record.sample for record in records) + 1)
        notes = []
        # For a gate on a group, the calibration must cover that group's prompts.
        keys = prompt_keys(r.prompt for r in records) if gate.group else None
        foreign = calibration.foreign(self.candidate, gate.benchmark, keys)
        if foreign:
            notes.append(f"transferred: calibrated on {foreign}")
        errors = calibration.errors_on(gate.benchmark, keys)
        estimate = corrected(records, errors, level)
        factor = spread(METRICS[gate.metric], records, level)
        estimate = estimate.widened(factor, 0.0, 1.0)
        parts = correction.calibration_parts(estimate.value, estimate.n, errors)
        caution = ""
        if gate.group and not calibration.has_own(gate.benchmark, keys):
            caution = (
                f"calibrate on {LEAST} or more answers of this group: the judge's errors are known "
                "on other prompts only, and it may err differently here"
            )
        return EstimateVariant(
            "corrected",
            estimate,
            ", ".join(notes),
            need=need_of(gate, estimate, parts, level),
            caution=caution,
        )


def _deciding(
    views: Sequence[EstimateVariant], asked: Use | None
) -> EstimateVariant | None:
    """The variant that decides, whether or not the gate asks for one; None for the raw rate."""
    use = asked or "human"
    for view in views:
        if view.use == use and view.use != "raw" and view.decides:
            return view
    return None


def require_single(samples: int) -> None:
    """Raise CalibrationError for several answers a prompt, whose rate no calibration corrects.

    A calibration measures errors on single answers; a prompt with several counts by all of them.
    """
    if samples > 1:
        raise CalibrationError(
            "sample one answer to each prompt (sampling.samples = 1), or give --human-labels: a "
            f"calibration corrects verdicts on answers, and some prompts have {samples}"
        )


def corrected(records: Sequence[Record], errors: JudgeErrors, level: float) -> Estimate:
    """Estimate the share of prompts, of one answer each, that people would call refused."""
    labels = [r.judgement.label for r in records if isinstance(r.judgement, Binary)]
    if not labels:
        raise EvaluationError(
            f"corrected rate: none of {len(records)} answers has a valid verdict"
        )
    share = labels.count(Label.REFUSAL) / len(labels)
    return correction.rogan_gladen(share, len(labels), errors, level)
