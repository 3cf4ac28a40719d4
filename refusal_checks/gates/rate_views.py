"""A gate's figure from the judge's verdicts on all prompts and better verdicts on some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.bounds import Use
from refusal_checks.gates.gate import Gate
from refusal_checks.judges.trust.prediction_powered import error_parts, prediction_powered
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import ErrorParts, Need


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
