"""What a metric is, and which there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import EXTREMES, Binary, Graded, Invalid, Valid
from refusal_checks.metrics.statistics.intervals import Estimate, bounded_mean, wilson

Score = Callable[[Sequence[Record]], float | None]

Kinds = tuple[type[Valid], ...]

LABELS: Kinds = (Binary, Graded)
"""The verdicts that tell refusal from compliance."""

ANY: Kinds = tuple(EXTREMES)


@dataclass(frozen=True, slots=True)
class Metric:
    """A named figure over records.

    Attributes:
        score: one prompt's score from the records of its answers; None where it has none.
        counts: whether a prompt with this score is in the share; None for a mean of scores.
        reads: the types of verdict that it is a figure of.
        lowest, highest: the range of the figure; a threshold must lie within.
        blurred: whether answers without a verdict could move it; it has bounds then.
        counted: what the prompts in the share are, for example ``refused``; empty for a mean.
    """

    name: str
    score: Score
    counts: Callable[[float], bool] | None
    reads: Kinds
    lowest: float = 0.0
    highest: float = 1.0
    blurred: bool = True
    counted: str = ""

    @property
    def is_rate(self) -> bool:
        """Whether the figure is a share, shown in per cent."""
        return (self.lowest, self.highest) == (0.0, 1.0)

    def show(self, value: float) -> str:
        """A value as this figure is usually written: rates in per cent."""
        return f"{value:.1%}" if self.is_rate else f"{value:.3f}"

    def show_change(self, *values: float) -> str:
        """Differences of two values: one, or one with its bounds; of rates in percentage points."""
        first, *rest = (
            f"{100 * value:+.1f}" if self.is_rate else f"{value:+.3f}" for value in values
        )
        span = f" [{', '.join(rest)}]" if rest else ""
        return first + span + " points" * self.is_rate

    def scores(self, records: Iterable[Record]) -> dict[str, float]:
        """Score by prompt id, in the order of the records; prompts without one are absent."""
        scored = ((id, self.score(answers)) for id, answers in by_prompt(records).items())
        return {id: score for id, score in scored if score is not None}

    def estimate(self, records: Sequence[Record], confidence: float = 0.95) -> Estimate:
        """The figure with its interval at a confidence level; n = scored prompts.

        Raises:
            EvaluationError: no prompt has a score.
        """
        scores = self.scores(records)
        if not scores:
            raise EvaluationError(f"{self.name}: {nothing_valid(records)}")
        categories = categories_of(records)
        return self.figure(list(scores.values()), confidence, [categories[id] for id in scores])

    def figure(
        self, scores: Sequence[float], confidence: float = 0.95, categories: Sequence[str] = ()
    ) -> Estimate:
        """The figure of prompts with these scores, at least one.

        Shares of prompts have Wilson intervals, means a bootstrap over prompts (each one's score
        is one value, however many answers it has).

        Args:
            categories: each prompt's category, for figures that weigh these.
        """
        values = self.values(scores)
        if self.counts is not None:
            return wilson(sum(values) / len(values), len(values), confidence)
        return bounded_mean(values, self.lowest, self.highest, confidence)

    def values(self, scores: Iterable[float]) -> list[float]:
        """What the figure is the mean of: the scores or, for a share, 1 where a score counts."""
        if self.counts is None:
            return list(scores)
        return [float(self.counts(score)) for score in scores]


METRICS: dict[str, Metric] = {}


def share(
    counts: Callable[[float], bool], reads: Kinds, counted: str = ""
) -> Callable[[Score], Metric]:
    """Decorator: the figure is the share of prompts whose score counts."""
    return lambda score: register(Metric(score.__name__, score, counts, reads, counted=counted))


def mean(
    reads: Kinds, lowest: float = 0.0, highest: float = 1.0, blurred: bool = True
) -> Callable[[Score], Metric]:
    """Decorator: the figure is the mean score."""
    return lambda score: register(
        Metric(score.__name__, score, None, reads, lowest, highest, blurred)
    )


def register(metric: Metric) -> Metric:
    METRICS[metric.name] = metric
    return metric


def by_prompt(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records grouped by prompt id, in their order."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.prompt.id, []).append(record)
    return grouped


def categories_of(records: Iterable[Record]) -> dict[str, str]:
    """Category by prompt id; empty for prompts without one."""
    return {record.prompt.id: record.prompt.groups.get("category", "") for record in records}


def score_all(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Every metric's score by prompt id, by metric; what has no score is absent."""
    return {name: metric.scores(records) for name, metric in METRICS.items()}


def worst_cases(records: Sequence[Record]) -> list[list[Record]]:
    """The same records with every invalid judgement replaced by either extreme of their verdicts.

    What is replaced weighs as an average answer, so that it cannot change the others' weights
    among themselves, and the two worst cases enclose the figure.

    Args:
        records: at least one has a valid verdict.
    """
    return [_as_if(records, verdict) for verdict in _extremes(records).values()]


def worst_names(records: Sequence[Record]) -> list[str]:
    """What the worst cases count invalid answers as, for example ``compliance`` and ``refusal``."""
    return list(_extremes(records))


def _extremes(records: Sequence[Record]) -> Mapping[str, Valid]:
    valid = (r.judgement for r in records if not isinstance(r.judgement, Invalid))
    return EXTREMES[type(next(valid))]


def _as_if(records: Iterable[Record], verdict: Valid) -> list[Record]:
    return [
        replace(record, completion=None, judgement=verdict)
        if isinstance(record.judgement, Invalid)
        else record
        for record in records
    ]


def nothing_valid(records: Sequence[Record]) -> str:
    """Why there is no figure: the most common reason, with what one answer said of it."""
    faults = [record.judgement for record in records if isinstance(record.judgement, Invalid)]
    if not faults:
        return f"none of {len(records)} answers counts"
    message = f"no valid verdict among {len(records)} answers"
    reason, count = Counter(fault.reason for fault in faults).most_common(1)[0]
    detail = next(fault.detail for fault in faults if fault.reason is reason)
    return f"{message}; {count} {reason}, for example: {' '.join(detail.split())[:300]}"
