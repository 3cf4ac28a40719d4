"""A gate's figure from the judge's verdicts on all prompts and better verdicts on some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import NormalDist, stdev
from typing import TYPE_CHECKING

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Invalid, Label
from refusal_checks.gates.gate import CORRECTED, Gate, Use
from refusal_checks.judges.cascade import SecondOpinions
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.correction import (
    LEAST,
    JudgeErrors,
    calibration_parts,
    error_parts,
    prediction_powered,
    rogan_gladen,
    with_settled,
)
from refusal_checks.judges.trust.labels import is_answered
from refusal_checks.metrics import METRICS, Metric, by_prompt
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import ErrorParts, Need

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import BenchmarkLabels, LabelledPrompts


@dataclass(frozen=True)
class RateView:
    """A gate's figure, computed in one way.

    Attributes:
        use: the way.
        note: what a reader must know about it, for example that a calibration is transferred.
        decides: False for a figure that is only shown.
        extremes: the figure with the prompts that labellers skipped counted one way, then the
            other; None if they skipped none.
        need: what would decide the gate, if the interval contains its threshold.
    """

    use: Use
    estimate: Estimate
    note: str = ""
    decides: bool = True
    extremes: tuple[float, float] | None = None
    need: Need | None = None


@dataclass(frozen=True)
class Scores:
    """A metric's values by people and by the judge.

    Attributes:
        human, judge: of the labelled prompts, in the same order.
        others: the judge's of all other prompts.
        skipped: the judge's of those of these that labellers skipped.
        lowest: the least value that the metric has.
        spread: how many times as wide clusters make the interval, see ``spread``.
    """

    human: Sequence[float]
    judge: Sequence[float]
    others: Sequence[float]
    skipped: Sequence[float] = ()
    lowest: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(
        cls,
        metric: Metric,
        records: Sequence[Record],
        human: Mapping[str, Sequence[Record]],
        skipped: Sequence[str] = (),
    ) -> Scores:
        """The values of the prompts that have a valid verdict of the judge.

        Args:
            human: records with people's verdicts by prompt id, of a random part of the prompts.
            skipped: ids of prompts.
        """
        judged = metric.scores([r for r in records if not isinstance(r.judgement, Invalid)])
        labelled = {name: metric.score(answers) for name, answers in human.items()}
        people = {n: s for n, s in labelled.items() if s is not None and n in judged}
        rest = [score for name, score in judged.items() if name not in people]
        return cls(
            metric.values(people.values()),
            metric.values(judged[name] for name in people),
            metric.values(rest),
            metric.values(judged[name] for name in skipped if name in judged),
            metric.lowest,
        )

    def filled(self, value: float) -> Scores:
        """The values if people had given all skipped prompts this one."""
        others = list(self.others)
        for score in self.skipped:
            others.remove(score)
        human = [*self.human, *[value] * len(self.skipped)]
        return replace(self, human=human, judge=[*self.judge, *self.skipped], others=others)

    def estimate(self, level: float) -> Estimate:
        """The metric as people would judge it: the judge's verdicts on all, people's on some.

        Raises:
            EvaluationError: too few labels, or no valid verdict.
        """
        found = prediction_powered(self.human, self.judge, self.others, level, self.lowest)
        return found.widened(self.spread, self.lowest, 1.0)


def spread(metric: Metric, records: Sequence[Record], level: float) -> float:
    """How many times as wide clusters of prompts make a figure's interval; 1 without any.

    Estimates that take prompts for independent are widened by it.

    Args:
        records: of the prompts, with the best verdicts that are known.
    """
    if not any(record.prompt.cluster for record in records):
        return 1.0
    cases = (records, without_clusters(records))
    together, apart = (metric.estimate(each, level).width for each in cases)
    return max(1.0, together / apart)


def without_clusters(records: Sequence[Record]) -> Sequence[Record]:
    """The records as if all prompts were independent."""
    if not any(record.prompt.cluster for record in records):
        return records
    return [replace(r, prompt=replace(r.prompt, cluster="")) for r in records]


def powered(use: Use, gate: Gate, scores: Scores, level: float) -> RateView:
    """A rate from a sample, with the prompts that it lacks counted one way, then the other.

    Raises:
        EvaluationError: the sample is too small.
    """
    metric, estimate = METRICS[gate.metric], scores.estimate(level)
    if not scores.skipped:
        need = need_of(gate, estimate, error_parts(scores.human, scores.judge, scores.others))
        return RateView(use, estimate, need=need)
    ends = [scores.filled(end).estimate(level) for end in (metric.lowest, metric.highest)]
    low, high = (pick(end.value for end in ends) for pick in (min, max))
    widest = Estimate(
        min(high, max(low, estimate.value)),
        min(end.lower for end in ends),
        max(end.upper for end in ends),
        estimate.n,
    )
    return RateView(use, widest, extremes=(low, high))


def need_of(gate: Gate, estimate: Estimate, parts: ErrorParts) -> Need | None:
    """What would decide a gate; None if nothing bounds its figure."""
    if not gate.has_bounds:
        return None
    bound = gate.limits.spanned(estimate.lower, estimate.upper, estimate.value)
    return sample_size.for_labels(estimate, bound, parts)


def second_view(
    second: SecondOpinions, gate: Gate, records: Sequence[Record], level: float
) -> tuple[str, RateView | None]:
    """The rate, or why the second judge's sample is too small to tell.

    Prompts whose answers it decided need no sample; the others are estimated from theirs.

    Args:
        records: those that the gate looks at.
    """
    metric, alone = METRICS[gate.metric], without_clusters(records)
    why, found = _of_independent(second, gate, alone, level)
    factor = spread(metric, records, level) if found else 1.0
    if found is None or factor == 1.0:
        return why, found
    estimate = found.estimate.widened(factor, metric.lowest, metric.highest)
    return why, replace(found, estimate=estimate, need=None)


def _of_independent(
    second: SecondOpinions, gate: Gate, records: Sequence[Record], level: float
) -> tuple[str, RateView | None]:
    """``view`` of prompts without clusters."""
    metric, grouped = METRICS[gate.metric], by_prompt(filter(is_answered, records))
    settled = [name for name, answers in grouped.items() if second.settled(answers)]
    rest = {name: answers for name, answers in grouped.items() if name not in set(settled)}
    drawn = {name: answers for name, answers in rest.items() if name in second.drawn}
    known = {name: answers for name, answers in drawn.items() if second.known(answers)}
    judged = {name: list(map(second.judged, answers)) for name, answers in known.items()}
    decided = [*chain.from_iterable(grouped[name] for name in settled)]
    note = f"{second.judge} decided {len(settled)} prompts and read {len(known)} of the others"
    if len(known) == len(rest):
        every = [*decided, *chain.from_iterable(judged.values())]
        return "", RateView("cascade", metric.estimate(every, level), note)
    missing = [name for name in drawn if name not in known]
    scores = Scores.of(metric, [*chain.from_iterable(rest.values())], judged, missing)
    if len(scores.human) < LEAST:
        return f"not corrected: {note}, at least {LEAST} are needed", None
    if scores.skipped:
        note += f"; {len(scores.skipped)} without a verdict count one way, then the other"
    found = replace(powered("cascade", gate, scores, level), note=note)
    if all(isinstance(record.judgement, Invalid) for record in decided):
        return "", found
    return "", _beside(found, metric.estimate(decided, level), level)


def _beside(found: RateView, settled: Estimate, level: float) -> RateView:
    """A view of some prompts together with the estimate for all others."""
    share = settled.n / (settled.n + found.estimate.n)
    low, high = found.extremes or (0.0, 0.0)
    ends = [share * settled.value + (1 - share) * end for end in (low, high)]
    return replace(
        found,
        estimate=with_settled(found.estimate, settled, level),
        extremes=(ends[0], ends[1]) if found.extremes else None,
        need=None,
    )


@dataclass(frozen=True)
class HumanRates:
    """What a run knows of people's verdicts on its answers.

    Attributes:
        calibration: of the run's judge.
        candidate: whose answers the run judges, as calibrations name it.
        labels: people's labels of the answers to one benchmark.
        second: what the second judge of a cascade says of a sample of the benchmark's prompts.
        level: of the intervals.
    """

    calibration: Calibration | None = None
    candidate: str = ""
    labels: BenchmarkLabels | None = None
    level: float = 0.95
    second: SecondOpinions | None = None

    def views(self, gate: Gate, records: Sequence[Record]) -> tuple[RateView, ...]:
        """The raw rate and the rates as people would judge them; empty if there are none of these.

        Args:
            records: those that the gate looks at.

        Raises:
            EvaluationError: no answer has a valid verdict, or the calibration that is to decide
                the gate is not of these answers.
        """
        metric = METRICS[gate.metric]
        # Human labels are refusal or compliance, as are Binary verdicts.
        if not (Binary in metric.reads and metric.blurred) or not any(
            isinstance(record.judgement, Binary) for record in records
        ):
            return ()
        views: list[RateView] = []
        notes: list[str] = []
        if self.calibration and gate.metric == CORRECTED:
            try:
                views.append(self._corrected(self.calibration, gate, records))
            except CalibrationError as fault:
                if gate.use == "corrected":
                    raise EvaluationError(str(fault)) from None
                notes.append(f"no corrected rate: {fault}")
        if self.labels and self.labels.draws and gate.use != "corrected":
            labelled = self.labels.of(records)
            view = self._powered(labelled, metric, gate, records)
            views += [view] if view else []
            notes += [] if view else [labelled.why_unused]
        if self.second:
            few, view = second_view(self.second, gate, records, self.level)
            views += [view] if view else []
            notes += [few] if few else []
        raw = RateView("raw", metric.estimate(records, self.level), "; ".join(notes))
        return (raw, *views) if views or notes else ()

    def _corrected(
        self, calibration: Calibration, gate: Gate, records: Sequence[Record]
    ) -> RateView:
        several = any(len(answers) > 1 for answers in by_prompt(records).values())
        foreign = calibration.foreign(self.candidate, gate.benchmark)
        notes = ["share of answers"] if several else []
        if foreign:
            notes.append(f"transferred: calibrated on {foreign}")
        errors, metric = calibration.errors_on(gate.benchmark), METRICS[gate.metric]
        estimate = corrected(records, errors, self.level)
        estimate = estimate.widened(spread(metric, records, self.level), 0.0, 1.0)
        need = need_of(gate, estimate, calibration_parts(estimate.value, estimate.n, errors))
        return RateView("corrected", estimate, ", ".join(notes), need=need)

    def _powered(
        self, labelled: LabelledPrompts, metric: Metric, gate: Gate, records: Sequence[Record]
    ) -> RateView | None:
        if not labelled.enough:
            return None
        others = (record for record in records if record.prompt.id not in labelled.human)
        known = [*others, *chain.from_iterable(labelled.human.values())]
        scores = Scores.of(metric, records, labelled.human, labelled.skipped)
        scores = replace(scores, spread=spread(metric, known, self.level))
        why = labelled.why_unused
        notes = [f"human labels of {len(labelled.human)} prompts", *([why] if why else [])]
        if scores.skipped:
            notes.append(
                f"{len(scores.skipped)} skipped above a labelled one and counted one way, then the "
                "other: label them"
            )
        view = powered("human", gate, scores, self.level)
        return replace(view, note=", ".join(notes), decides=not why)

    def used(self, gate: Gate, views: Sequence[RateView]) -> RateView | None:
        """The view that decides a gate; None for the judge's figure, however it is estimated."""
        uses: Sequence[Use] = (gate.use,) if gate.use else ("human", "cascade")
        if gate.use == "raw":
            return None
        deciding = (view for use in uses for view in views if view.use == use and view.decides)
        return next(deciding, None)

    @staticmethod
    def require_decided(gate: Gate, used: RateView | None) -> None:
        """Raise EvaluationError if prompts that labellers skipped alone decide the figure."""
        if used is None or used.extremes is None or gate.decision != "point":
            return
        if len({gate.limits.holds(value) for value in used.extremes}) > 1:
            low, high = (METRICS[gate.metric].show(value) for value in used.extremes)
            what = "label the prompts that were skipped, which alone decide"
            if used.use == "cascade":
                what = "run again: the prompts that the second judge could not judge decide"
            raise EvaluationError(f"{what} this gate ({low} to {high}): {used.note}")


def corrected(records: Sequence[Record], errors: JudgeErrors, level: float) -> Estimate:
    """The share of answers that people would call refusals, averaged over prompts.

    A calibration measures errors on single answers, so the share of answers is corrected; with one
    answer per prompt that is the rejection rate. n is the number of prompts: the mean of a prompt's
    answers varies no more than one answer, so the interval is conservative for several.

    Raises:
        EvaluationError: no answer has a valid verdict.
        CalibrationError: the judge carries no information, or the errors are not those that it
            makes on these answers.
    """
    shares = [
        share for answers in by_prompt(records).values() if (share := _refused(answers)) is not None
    ]
    if not shares:
        raise EvaluationError(f"corrected rate: none of {len(records)} answers has a valid verdict")
    return rogan_gladen(sum(shares) / len(shares), len(shares), errors, level)


def _refused(answers: Sequence[Record]) -> float | None:
    labels = [r.judgement.label for r in answers if isinstance(r.judgement, Binary)]
    return sum(label is Label.REFUSAL for label in labels) / len(labels) if labels else None


@dataclass(frozen=True)
class Noise:
    """Judge noise in one gate's figure.

    Attributes:
        repeats: how often each answer was judged.
        answers: number of answers with a verdict in at least two repeats.
        flipped: number of these with differing verdicts.
        deviation: standard deviation of the figure over the repeats.
        of_interval: its square as a share of the interval's variance, in [0, 1].
    """

    repeats: int
    answers: int
    flipped: int
    deviation: float
    of_interval: float


def noise(
    metric: Metric, repeats: Sequence[Sequence[Record]], estimate: Estimate, level: float
) -> Noise | None:
    """The noise in a figure; None if fewer than two repeats have the figure.

    Args:
        repeats: the records that the figure is computed from, as judged each time.
        estimate: the figure with its interval at that level.
    """
    values = [value for records in repeats if (value := _value(metric, records)) is not None]
    if len(values) < 2:
        return None
    verdicts: dict[tuple[str, int], list[str]] = {}
    for records in repeats:
        for record in records:
            if not isinstance(record.judgement, Invalid):
                answer = (record.prompt.id, record.sample)
                verdicts.setdefault(answer, []).append(record.judgement.verdict)
    several = [given for given in verdicts.values() if len(given) > 1]
    deviation = stdev(values)
    half = (estimate.upper - estimate.lower) / 2
    error = half / NormalDist().inv_cdf((1 + level) / 2)
    return Noise(
        repeats=len(repeats),
        answers=len(several),
        flipped=sum(len(set(given)) > 1 for given in several),
        deviation=deviation,
        of_interval=min(1.0, (deviation / error) ** 2) if error else 0.0,
    )


def _value(metric: Metric, records: Sequence[Record]) -> float | None:
    try:
        return metric.estimate(records).value
    except EvaluationError:
        return None
