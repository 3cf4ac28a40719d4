"""Estimate the rate that people would find, from their labels of part of the prompts.

Where the sample is large enough, the judge's verdicts on all prompts are combined with the labels
(``powered_rates.prediction_powered``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from refusal_checks.core.labelling import LEAST, is_model
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.estimate_set import EstimateVariant
from refusal_checks.gates.gate import Gate
from refusal_checks.judges.trust import powered_rates
from refusal_checks.judges.trust.labels import LabelledPrompts
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import ErrorParts, Need


@dataclass(frozen=True)
class PairedScores:
    """A metric's values by people and by the judge.

    Attributes:
        human, judge: values of sampled prompts, in the same order, by people and by the judge, both
            of the answers that have a label.
        others: the judge's values of all other prompts, of all their answers.
        skipped: the values in ``others`` whose prompts were drawn but have no label.
        lowest: lower end of the metric's range.
        spread: factor by which clusters widen the interval, see the function ``spread``.
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
        people: Mapping[str, Sequence[Record]],
        skipped: Sequence[str] = (),
    ) -> PairedScores:
        """Take the values of the prompts on which the judge has a verdict.

        Args:
            people: records of labelled prompts with people's verdicts, by prompt id.
            skipped: ids of prompts that were drawn and are not labelled.
        """
        valid = [r for r in records if not isinstance(r.judgement, Invalid)]
        judged = metric.scores(valid)
        answers = {
            (name, record.sample) for name, own in people.items() for record in own
        }
        same = metric.scores([r for r in valid if (r.prompt.id, r.sample) in answers])
        scored = metric.scores_of(people)
        sampled = {name: score for name, score in scored.items() if name in same}
        rest = [score for name, score in judged.items() if name not in sampled]
        return cls(
            human=metric.values(sampled.values()),
            judge=metric.values(same[name] for name in sampled),
            others=metric.values(rest),
            skipped=metric.values(judged[name] for name in skipped if name in judged),
            lowest=metric.lowest,
        )

    @property
    def contradictions(self) -> int:
        """Number of prompts that people and the judge score differently."""
        pairs = zip(self.human, self.judge, strict=True)
        return sum(human != judge for human, judge in pairs)

    def estimate(self, level: float) -> Estimate:
        """Estimate the metric as people would find it."""
        combined = powered_rates.prediction_powered(
            self.human, self.judge, self.others, level, self.lowest
        )
        return combined.widened(self.spread, self.lowest, 1.0)

    def variant(self, gate: Gate, level: float) -> EstimateVariant:
        """The figure, with skipped prompts counted one way, then the other."""
        estimate = self.estimate(level)
        if not self.skipped:
            parts = powered_rates.error_parts(self.human, self.judge, self.others)
            need = need_of(gate, estimate, parts, level)
            return EstimateVariant("human", estimate, need=need)
        metric = METRICS[gate.metric]
        all_low = self._with_skipped_as(metric.lowest).estimate(level)
        all_high = self._with_skipped_as(metric.highest).estimate(level)
        low, high = sorted((all_low.value, all_high.value))
        widest = Estimate(
            min(high, max(low, estimate.value)),
            min(all_low.lower, all_high.lower),
            max(all_low.upper, all_high.upper),
            estimate.n,
        )
        return EstimateVariant("human", widest, extremes=(low, high))

    def _with_skipped_as(self, score: float) -> PairedScores:
        """A copy in which people have given this score to all skipped prompts."""
        others = list(self.others)
        for skipped in self.skipped:
            others.remove(skipped)
        return replace(
            self,
            human=[*self.human, *[score] * len(self.skipped)],
            judge=[*self.judge, *self.skipped],
            others=others,
        )


def labelled(
    sample: LabelledPrompts, gate: Gate, records: Sequence[Record], level: float
) -> EstimateVariant | str:
    """The rate with people's labels, or why there are too few.

    Too few labels for a combination with the judge's verdicts still give the rate if all prompts
    have one, and widen its interval if they contradict the judge. A model's labels are no people's:
    what they give is only said.
    """
    metric, n, why = METRICS[gate.metric], len(sample.human), sample.why_unused
    if sample.needs_whole:
        return why
    people = list(chain.from_iterable(sample.human.values()))
    scores = PairedScores.of(metric, records, sample.human, sample.skipped)
    if is_model(sample.by):
        if not sample.enough:
            return why
        estimate = scores.variant(gate, level).estimate
        return f"{estimate:.1%} by labels of {sample.by} on {n} prompts, which decide nothing"
    note = f"human labels of {n} prompts"
    if not sample.enough:
        if n and sample.is_complete:
            note = f"human labels of all {n} prompts"
            return EstimateVariant("human", metric.estimate(people, level), note)
        if not sample.is_random or not scores.contradictions:
            return why
        caution = (
            f"label {LEAST} or more of its prompts: {scores.contradictions} of {n} labels "
            "contradict the judge"
        )
        estimate = _widest(metric, people, records, level)
        return EstimateVariant("human", estimate, note, caution=caution)
    others = (record for record in records if record.prompt.id not in sample.human)
    scores = replace(scores, spread=spread(metric, [*others, *people], level))
    notes = [note]
    if why:
        notes.append(why)
    if scores.skipped:
        notes.append(
            f"{len(scores.skipped)} skipped above a labelled one: label them; until then the "
            "interval allows for either verdict"
        )
    variant = scores.variant(gate, level)
    return replace(variant, note=", ".join(notes), decides=not why)


def _widest(
    metric: Metric, sample: Sequence[Record], records: Sequence[Record], level: float
) -> Estimate:
    """An interval that contains the judge's over all records and people's over the sample."""
    own, judge = metric.estimate(sample, level), metric.estimate(records, level)
    value = min(own.upper, max(own.lower, judge.value))
    lower, upper = min(own.lower, judge.lower), max(own.upper, judge.upper)
    return Estimate(value, lower, upper, judge.n)


def need_of(
    gate: Gate, estimate: Estimate, parts: ErrorParts, level: float
) -> Need | None:
    """What would decide a gate; None if its figure has no bounds."""
    if not gate.has_bounds:
        return None
    bound = gate.limits.nearest(estimate)
    return sample_size.for_labels(estimate, bound, parts, level)


def spread(metric: Metric, records: Sequence[Record], level: float) -> float:
    """Factor by which clusters of prompts widen a figure's interval; 1 without clusters.

    Estimates that treat prompts as independent are widened by it. The records have people's
    verdicts where there are any.
    """
    apart = without_clusters(records)
    if apart is records:
        return 1.0
    clustered = metric.estimate(records, level)
    return max(1.0, clustered.width / metric.estimate(apart, level).width)


def without_clusters(records: Sequence[Record]) -> Sequence[Record]:
    """The records with all prompts made independent; the same object if they are."""
    if not any(record.prompt.cluster for record in records):
        return records
    return [replace(r, prompt=replace(r.prompt, cluster="")) for r in records]
