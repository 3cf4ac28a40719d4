"""A gate's figure in all the ways it is known, and the one that it rests on.

The judge's own verdicts give the ``raw`` rate. Three others come nearer to what people would say:
the rate ``corrected`` by a calibration of the judge, the one that combines it with ``human`` labels
of some answers, and the one that a second judge corrects (``cascade``). ``Evidence.rate`` decides
once which of them a gate rests on: its figure, its worst cases, the prompts compared with an
earlier run and its sentence all come from that one ``EstimateSet``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Invalid, Label
from refusal_checks.gates.gate import CORRECTED, Gate, Use
from refusal_checks.judges.cascade import SecondOpinions
from refusal_checks.judges.trust import correction, powered_rates
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.canary import JudgeCheck
from refusal_checks.judges.trust.correction import LEAST, JudgeErrors
from refusal_checks.judges.trust.draws import is_answered, prompt_keys
from refusal_checks.metrics import METRICS, Metric, by_prompt
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import ErrorParts, Need

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import BenchmarkLabels, LabelledPrompts


@dataclass(frozen=True)
class EstimateVariant:
    """A gate's figure, computed in one way."""

    use: Use
    estimate: Estimate
    # what a reader must know about it, for example that a calibration is transferred
    note: str = ""
    decides: bool = True  # False for a figure that is only shown
    # the figure with the prompts that labellers skipped counted one way, then the other; None if
    # they skipped none
    extremes: tuple[float, float] | None = None
    need: Need | None = (
        None  # what would decide the gate, if the interval contains its threshold
    )
    caution: str = (
        ""  # what to do about a figure of a group that rests on too little of its own
    )
    errors: JudgeErrors | None = None  # of the judge, that correct it


@dataclass(frozen=True)
class EstimateSet:
    """A metric's figure over some records, and the view that it rests on."""

    metric: Metric
    records: Sequence[Record]
    # in all the ways it is known; empty if the judge's is the only one
    views: tuple[EstimateVariant, ...] = ()
    used: EstimateVariant | None = (
        None  # the view that decides, unless that is the judge's figure
    )
    # the scores of the prompts in a random sample that people labelled
    people: Mapping[str, float] = field(default_factory=dict)
    # what the judge misreads of the records, where its figure decides; mostly empty
    misread: str = ""

    @property
    def is_share(self) -> bool:
        return self.metric.counts is not None and self.used is None

    def estimate(self, level: float) -> Estimate:
        """The figure; the level is that of the judge's, because another view has its own."""
        return (
            self.used.estimate
            if self.used
            else self.metric.estimate(self.records, level)
        )

    @property
    def is_doubtful(self) -> bool:
        """True if it rests on a judge that misreads such answers, or on its errors on others."""
        of_others = self.used and self.used.use == "corrected" and self.used.caution
        return bool(self.misread or of_others)

    def require_decided(self, gate: Gate) -> None:
        """Raise EvaluationError if prompts that labellers skipped alone decide the figure."""
        if self.used is None or self.used.extremes is None or gate.decision != "point":
            return
        if len({gate.limits.holds(value) for value in self.used.extremes}) > 1:
            low, high = map(self.metric.show, self.used.extremes)
            what = "label the prompts that were skipped, which alone decide"
            if self.used.use == "cascade":
                what = "run again: the prompts that the second judge could not judge decide"
            raise EvaluationError(
                f"{what} this gate ({low} to {high}): {self.used.note}"
            )


@dataclass(frozen=True)
class Evidence:
    """What a run knows of the answers to a benchmark besides its judge's verdicts."""

    calibration: Calibration | None = None
    candidate: str = ""  # whose answers they are, as calibrations name it
    labels: BenchmarkLabels | None = None
    # what the second judge of a cascade says of a sample of the prompts
    second: SecondOpinions | None = None
    check: JudgeCheck | None = None  # of the judge, on the canary

    def rate(
        self, gate: Gate, records: Sequence[Record], level: float = 0.95
    ) -> EstimateSet:
        """A gate's figure over the records that it looks at, with the view that decides it."""
        metric = METRICS[gate.metric]
        views = tuple(self._views(metric, gate, records, level))
        uses: Sequence[Use] = (gate.use,) if gate.use else ("human", "cascade")
        deciding = (
            v
            for use in uses
            for v in views
            if use != "raw" and v.use == use and v.decides
        )
        used = next(deciding, None)
        people = self.labels.scores(metric, records) if self.labels and used else {}
        trusts = self.check and metric.blurred and not used
        misread = self.check.misread(records) if self.check and trusts else ""
        return EstimateSet(metric, records, views, used, people, misread)

    def _views(
        self, metric: Metric, gate: Gate, records: Sequence[Record], level: float
    ) -> list[EstimateVariant]:
        """The raw rate and the others; empty if there are none of these."""
        # Human labels are refusal or compliance, as are Binary verdicts.
        is_refusal = Binary in metric.reads and metric.blurred
        if not is_refusal or not any(isinstance(r.judgement, Binary) for r in records):
            return []
        found: list[EstimateVariant | str] = []  # a text says why there is no view
        if self.calibration and gate.metric == CORRECTED:
            try:
                found.append(self._corrected(self.calibration, gate, records, level))
            except CalibrationError as fault:
                if gate.use == "corrected":
                    raise EvaluationError(str(fault)) from None
                found.append(f"no corrected rate: {fault}")
        if self.labels and self.labels.draws and gate.use != "corrected":
            found.append(_labelled(self.labels.of(records), gate, records, level))
        if self.second:
            view = _seconded(self.second, gate, without_clusters(records), level)
            factor = 1.0 if isinstance(view, str) else spread(metric, records, level)
            if isinstance(view, EstimateVariant) and factor > 1.0:
                wider = view.estimate.widened(factor, metric.lowest, metric.highest)
                view = replace(view, estimate=wider, need=None)
            found.append(view)
        notes = "; ".join(each for each in found if isinstance(each, str))
        views = [each for each in found if isinstance(each, EstimateVariant)]
        return (
            [EstimateVariant("raw", metric.estimate(records, level), notes), *views]
            if found
            else []
        )

    def _corrected(
        self,
        calibration: Calibration,
        gate: Gate,
        records: Sequence[Record],
        level: float,
    ) -> EstimateVariant:
        several = len(records) > len({record.prompt.id for record in records})
        notes = ["share of answers"] * several
        where = (
            gate.benchmark,
            prompt_keys(r.prompt for r in records) if gate.group else None,
        )
        if foreign := calibration.foreign(self.candidate, *where):
            notes.append(f"transferred: calibrated on {foreign}")
        errors, metric = calibration.errors_on(*where), METRICS[gate.metric]
        estimate = corrected(records, errors, level)
        estimate = estimate.widened(spread(metric, records, level), 0.0, 1.0)
        need = _need(
            gate,
            estimate,
            correction.calibration_parts(estimate.value, estimate.n, errors),
            level,
        )
        caution = (
            f"calibrate on {LEAST} or more answers of this group: the judge's errors are known on "
            "other prompts only, and it may err differently here"
        ) * bool(gate.group and not calibration.has_own(*where))
        return EstimateVariant(
            "corrected",
            estimate,
            ", ".join(notes),
            need=need,
            caution=caution,
            errors=errors,
        )


def corrected(records: Sequence[Record], errors: JudgeErrors, level: float) -> Estimate:
    """The share of answers that people would call refusals, averaged over prompts.

    A calibration measures errors on single answers, so the share of answers is corrected; with one
    answer per prompt that is the rejection rate. n is the number of prompts: the mean of a prompt's
    answers varies no more than one answer, so the interval is conservative for several.
    """
    shares = []
    for answers in by_prompt(records).values():
        labels = [r.judgement.label for r in answers if isinstance(r.judgement, Binary)]
        if labels:
            shares.append(labels.count(Label.REFUSAL) / len(labels))
    if not shares:
        raise EvaluationError(
            f"corrected rate: none of {len(records)} answers has a valid verdict"
        )
    return correction.rogan_gladen(
        sum(shares) / len(shares), len(shares), errors, level
    )


@dataclass(frozen=True)
class PairedScores:
    """A metric's values by people (or a better judge) and by the judge."""

    # human, judge: of the labelled prompts, in the same order
    human: Sequence[float]
    judge: Sequence[float]
    others: Sequence[float]  # the judge's of all other prompts
    skipped: Sequence[
        float
    ] = ()  # the judge's of those of these that labellers skipped
    lowest: float = 0.0  # the least value that the metric has
    spread: float = (
        1.0  # how many times as wide clusters make the interval, see `spread`
    )

    @classmethod
    def of(
        cls,
        metric: Metric,
        records: Sequence[Record],
        human: Mapping[str, Sequence[Record]],
        skipped: Sequence[str] = (),
    ) -> PairedScores:
        """The values of the prompts with a valid verdict of the judge, and people's of a part."""
        judged = metric.scores(
            [r for r in records if not isinstance(r.judgement, Invalid)]
        )
        labelled = {name: metric.score(answers) for name, answers in human.items()}
        people = {n: s for n, s in labelled.items() if s is not None and n in judged}
        return cls(
            metric.values(people.values()),
            metric.values(judged[name] for name in people),
            metric.values(
                score for name, score in judged.items() if name not in people
            ),
            metric.values(judged[name] for name in skipped if name in judged),
            metric.lowest,
        )

    @property
    def contradictions(self) -> int:
        """How many prompts have another score by people than by the judge."""
        return sum(
            one != other for one, other in zip(self.human, self.judge, strict=True)
        )

    def estimate(self, level: float) -> Estimate:
        """The metric as people would judge it: the judge's verdicts on all, people's on some."""
        found = powered_rates.prediction_powered(
            self.human, self.judge, self.others, level, self.lowest
        )
        return found.widened(self.spread, self.lowest, 1.0)

    def view(self, use: Use, gate: Gate, level: float) -> EstimateVariant:
        """The rate, with skipped prompts counted one way, then the other."""
        metric, estimate = METRICS[gate.metric], self.estimate(level)
        if not self.skipped:
            parts = powered_rates.error_parts(self.human, self.judge, self.others)
            return EstimateVariant(
                use, estimate, need=_need(gate, estimate, parts, level)
            )
        others = list(self.others)
        for score in self.skipped:
            others.remove(score)
        whole = replace(self, judge=[*self.judge, *self.skipped], others=others)
        ends = [
            replace(whole, human=[*self.human, *[end] * len(self.skipped)]).estimate(
                level
            )
            for end in (metric.lowest, metric.highest)
        ]
        low, high = (pick(end.value for end in ends) for pick in (min, max))
        value = min(high, max(low, estimate.value))
        lower, upper = min(end.lower for end in ends), max(end.upper for end in ends)
        return EstimateVariant(
            use, Estimate(value, lower, upper, estimate.n), extremes=(low, high)
        )


def spread(metric: Metric, records: Sequence[Record], level: float) -> float:
    """How many times as wide clusters of prompts make a figure's interval; 1 without any.

    Estimates that take prompts for independent are widened by it. The records have the best
    verdicts that are known.
    """
    apart = without_clusters(records)
    if apart is records:
        return 1.0
    return max(
        1.0, metric.estimate(records, level).width / metric.estimate(apart, level).width
    )


def without_clusters(records: Sequence[Record]) -> Sequence[Record]:
    """The records as if all prompts were independent."""
    if not any(record.prompt.cluster for record in records):
        return records
    return [replace(r, prompt=replace(r.prompt, cluster="")) for r in records]


def _need(
    gate: Gate, estimate: Estimate, parts: ErrorParts, level: float
) -> Need | None:
    """What would decide a gate; None if nothing bounds its figure."""
    if not gate.has_bounds:
        return None
    bound = gate.limits.nearest(estimate)
    return sample_size.for_labels(estimate, bound, parts, level)


def _labelled(
    labelled: LabelledPrompts, gate: Gate, records: Sequence[Record], level: float
) -> EstimateVariant | str:
    """The rate with people's labels, or why they are too few.

    Too few to be combined with the judge's verdicts, they are the rate if all prompts have one, and
    make its interval wider if they contradict the judge.
    """
    metric, n, why = METRICS[gate.metric], len(labelled.human), labelled.why_unused
    people = [*chain.from_iterable(labelled.human.values())]
    scores = PairedScores.of(metric, records, labelled.human, labelled.skipped)
    note = f"human labels of {n} prompts"
    if not labelled.enough:
        if n and labelled.is_complete:
            note = f"human labels of all {n} prompts"
            return EstimateVariant("human", metric.estimate(people, level), note)
        if not labelled.is_random or not scores.contradictions:
            return why
        few = f"label {LEAST} or more of its prompts: {scores.contradictions} of {n} labels"
        widest = _widest(metric, people, records, level)
        return EstimateVariant(
            "human", widest, note, caution=f"{few} contradict the judge"
        )
    others = (record for record in records if record.prompt.id not in labelled.human)
    scores = replace(scores, spread=spread(metric, [*others, *people], level))
    notes = [note, *filter(None, [why])]
    if scores.skipped:
        notes.append(
            f"{len(scores.skipped)} skipped above a labelled one and counted one way, then the "
            "other: label them"
        )
    return replace(
        scores.view("human", gate, level), note=", ".join(notes), decides=not why
    )


def _widest(
    metric: Metric, people: Sequence[Record], records: Sequence[Record], level: float
) -> Estimate:
    """The widest of the judge's interval and of a few prompts' own."""
    own, judge = metric.estimate(people, level), metric.estimate(records, level)
    value = min(own.upper, max(own.lower, judge.value))
    lower, upper = min(own.lower, judge.lower), max(own.upper, judge.upper)
    return Estimate(value, lower, upper, judge.n)


def _seconded(
    second: SecondOpinions, gate: Gate, records: Sequence[Record], level: float
) -> EstimateVariant | str:
    """The rate that a second judge would find, or why its sample is too small to tell.

    Prompts whose answers it decided need no sample; the others are estimated from theirs.
    """
    metric, grouped = METRICS[gate.metric], by_prompt(filter(is_answered, records))
    settled = {name: each for name, each in grouped.items() if second.settled(each)}
    rest = {name: each for name, each in grouped.items() if name not in settled}
    drawn = {name: each for name, each in rest.items() if name in second.drawn}
    judged = {
        name: list(map(second.judged, each))
        for name, each in drawn.items()
        if second.known(each)
    }
    decided, people, others = (
        [*chain.from_iterable(each.values())] for each in (settled, judged, rest)
    )
    note = f"{second.judge} decided {len(settled)} prompts and read {len(judged)} of the others"
    if len(judged) == len(rest):
        return EstimateVariant(
            "cascade", metric.estimate([*decided, *people], level), note
        )
    missing = [name for name in drawn if name not in judged]
    scores = PairedScores.of(metric, others, judged, missing)
    if len(scores.human) < LEAST:
        if not scores.contradictions:
            return f"not corrected: {note}, at least {LEAST} are needed"
        few = f"raise judge.cascade.sample: it contradicts {scores.contradictions} of {len(judged)}"
        widest = _widest(metric, people, others, level)
        found = EstimateVariant("cascade", widest, note, caution=f"{few} verdicts")
    else:
        if scores.skipped:
            note += f"; {len(scores.skipped)} without a verdict count one way, then the other"
        found = replace(scores.view("cascade", gate, level), note=note)
    if all(isinstance(record.judgement, Invalid) for record in decided):
        return found
    beside = metric.estimate(decided, level)
    share = beside.n / (beside.n + found.estimate.n)
    low, high = (
        share * beside.value + (1 - share) * end for end in found.extremes or (0.0, 0.0)
    )
    whole = powered_rates.with_settled(found.estimate, beside, level)
    ends = (low, high) if found.extremes else None
    return replace(found, estimate=whole, extremes=ends, need=None)
