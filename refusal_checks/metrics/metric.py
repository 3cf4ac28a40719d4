"""What a metric is, and the registry of all metrics."""

import math
import traceback
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.judgements import (
    EXTREMES,
    Binary,
    Graded,
    Invalid,
    Reason,
    Valid,
)
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Record
from refusal_checks.io import extensions
from refusal_checks.metrics.statistics.intervals import (
    Estimate,
    Units,
    bounded_mean,
    group_units,
)

Score = Callable[[Sequence[Record]], float | None]

VerdictTypes = tuple[type[Valid], ...]

LABELS: VerdictTypes = (Binary, Graded)
"""Verdicts that distinguish refusal from compliance."""

ANY: VerdictTypes = tuple(EXTREMES)

Better = Literal["", "high", "low", "refusal", "compliance"]
"""Which values are good: high or low ones everywhere; those of more refusal (or compliance) where
prompts must be refused and the opposite where they must be answered; or nobody can say."""

Group = Literal["main", "judging", "detail"]
"""Where reports show a metric: ``main`` is what a benchmark is broken down by, ``judging`` is about
the judge's verdicts, ``detail`` is shown where there is room."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A named figure over records.

    Attributes:
        score: function that scores one prompt from the records of its answers; None for no score.
        counts: function that says how much of a prompt with this score is in the share: 1 or 0, or
            with ``float`` the score itself, the share of its answers; None for a mean of scores.
        reads: types of verdict that it reads.
        lowest: lower end of the figure's range; bounds must lie within the range.
        highest: upper end.
        blurred: True if answers without a verdict could move the figure, so that worst cases are
            reported.
        mixed: True if a worst case may count some of these answers one way and others the other
            way.
        weighs: True if log-probabilities weigh a prompt's answers; a gate on it has them asked for.
        sampled: True if further prompts could change the figure; False for figures of the run's own
            answers, which are all known.
        kinds: kinds of benchmark that have it.
        counted: word for what is in the share, for example ``refused``; empty for a mean.
        scored: what reports call a prompt's score.
        sentence: template of a sentence about the candidate, without a full stop, for example
            ``Refuses {figure} of {prompts}``. Further fields are {group} and {worst} (how often the
            worst answer refuses).
    """

    name: str
    score: Score
    counts: Callable[[float], float] | None
    reads: VerdictTypes
    lowest: float = 0.0
    highest: float = 1.0
    blurred: bool = True
    mixed: bool = False
    weighs: bool = False
    sampled: bool = True
    kinds: tuple[Kind, ...] = tuple(Kind)
    counted: str = ""
    sentence: str = ""
    better: Better = ""
    group: Group = "detail"
    scored: str = "score"

    def guard(self, kind: Kind) -> Literal["min", "max"] | None:
        """Return which bound excludes bad values for this kind of benchmark, or None."""
        if self.better == "high":
            return "min"
        if self.better == "low":
            return "max"
        right = {Kind.SAFETY: "refusal", Kind.SANITY: "compliance"}.get(kind)
        if right is None or self.better == "":
            return None
        return "min" if self.better == right else "max"

    @property
    def is_rate(self) -> bool:
        return (self.lowest, self.highest) == (0.0, 1.0)

    @property
    def span(self) -> float:
        return self.highest - self.lowest

    @property
    def range_text(self) -> str:
        return f"[{self.lowest:g}, {self.highest:g}]"

    def holds(self, value: float) -> bool:
        """True if a value lies within the range of the figure."""
        return self.lowest <= value <= self.highest

    def scale(self, value: float) -> float:
        """Map a value of the figure from its range to [0, 1]."""
        return (value - self.lowest) / self.span

    def counts_prompts(self, values: Iterable[float]) -> bool:
        """True for a share if each of these values puts its prompt fully in or out of it."""
        # Then flips can be counted, and Tango's bounds hold; else values move by parts of a prompt.
        return self.counts is not None and {0.0, 1.0}.issuperset(values)

    def show_score(self, score: float) -> str:
        """Format a prompt's score; a share of answers as a percentage."""
        return f"{score:.0%}" if self.counts is float else f"{score:+.2f}"

    def show(self, value: float) -> str:
        return f"{value:.1%}" if self.is_rate else f"{value:.3f}"

    def interval(self, estimate: Estimate) -> str:
        """Format the interval, for example ``[71.1%, 86.7%]``."""
        return f"[{self.show(estimate.lower)}, {self.show(estimate.upper)}]"

    def show_change(self, *values: float) -> str:
        """Format a change, with bounds if given; for rates in percentage points."""
        if self.is_rate:
            first, *bounds = [f"{100 * value:+.1f}" for value in values]
            unit = " points"
        else:
            first, *bounds = [f"{value:+.3f}" for value in values]
            unit = ""
        span = f" [{', '.join(bounds)}]" if bounds else ""
        return f"{first}{span}{unit}"

    def scores(self, records: Iterable[Record]) -> dict[str, float]:
        """Score prompts by id, in the order of the records; prompts without a score are absent."""
        return self.score_prompts(group_by_prompt(records))

    def score_prompts(
        self, prompts: Mapping[str, Sequence[Record]]
    ) -> dict[str, float]:
        scored = ((name, self.score(answers)) for name, answers in prompts.items())
        return {name: score for name, score in scored if score is not None}

    def estimate(self, records: Sequence[Record], confidence: float = 0.95) -> Estimate:
        """Compute the figure with its two-sided interval; n is the number of prompts with a score.

        Raises:
            EvaluationError: no prompt has a score; the message says why.
        """
        scores = self.scores(records)
        if not scores:
            raise EvaluationError(f"{self.name}: {explain_missing_figure(records)}")
        prompts = {record.prompt.id: record.prompt for record in records}
        return self.figure(
            list(scores.values()), [prompts[name] for name in scores], confidence
        )

    def figure(
        self,
        scores: Sequence[float],
        prompts: Sequence[Prompt],
        confidence: float = 0.95,
    ) -> Estimate:
        """Compute the figure from the scores of one or more prompts, in the same order.

        A prompt counts once, however many answers it has: its answers are alike, and would make
        the interval too short as units of their own. Prompts of one cluster count as one unit.
        """
        values, clusters = self.values(scores), self.units(prompts)
        return bounded_mean(values, self.lowest, self.highest, confidence, clusters)

    def units(self, prompts: Sequence[Prompt]) -> Units | None:
        """Return units and weights for the interval; None if each prompt is a unit of weight 1."""
        return group_units([prompt.cluster for prompt in prompts])

    def values(self, scores: Iterable[float]) -> list[float]:
        """Return the values whose mean is the figure: scores, or how much counts in the share."""
        if self.counts is None:
            return list(scores)
        return [float(self.counts(score)) for score in scores]


METRICS: dict[str, Metric] = {}

PLACES = ("figure", "prompts", "group", "worst")
"""The fields that a metric's sentence may use."""


def share(
    counts: Callable[[float], float],
    reads: VerdictTypes,
    counted: str = "",
    **attributes: Any,
) -> Callable[[Score], Metric]:
    """Decorate a metric whose figure is a share of prompts, or of answers; see ``Metric``."""
    fields = {"counts": counts, "reads": reads, "counted": counted, **attributes}
    return lambda score: register(Metric(score.__name__, score, **fields))


def mean(
    reads: VerdictTypes, form: type[Metric] = Metric, **attributes: Any
) -> Callable[[Score], Metric]:
    """Decorate a metric whose figure is the mean score; ``form`` is a subclass of ``Metric``."""
    return lambda score: register(
        form(score.__name__, score, None, reads, **attributes)
    )


def average(values: Iterable[float]) -> float | None:
    """A prompt's score as the mean of its answers' values; None if no answer has one."""
    scores = list(values)
    return math.fsum(scores) / len(scores) if scores else None


def main_metric(names: Container[str]) -> Metric | None:
    """The metric among these that reports break down by group; None if there is none."""
    for metric in METRICS.values():
        if metric.group == "main" and metric.name in names:
            return metric
    return None


def register(metric: Metric) -> Metric:
    """Register a metric under its name, which must be unique across modules."""
    # Here, and not in the first run that fails a gate on it.
    try:
        metric.sentence.format(**dict.fromkeys(PLACES, ""))
    except (LookupError, ValueError, AttributeError) as fault:
        raise extensions.ExtensionError(
            f"metric {metric.name}: name only {', '.join(PLACES)} in the braces of its sentence; "
            f"{fault} is there"
        ) from None
    if not -math.inf < metric.lowest < metric.highest < math.inf:
        raise extensions.ExtensionError(
            f"metric {metric.name}: declare both ends of its range: intervals need them"
        )
    other, module = METRICS.get(metric.name), metric.score.__module__
    # A module that is imported again, as by a notebook, replaces its own metrics.
    if other and other.score.__module__ != module:
        names = extensions.UniqueNames("metrics")
        names.add(metric.name, extensions.module_origin(other.score.__module__))
        names.add(metric.name, extensions.module_origin(module))
    if not module.startswith("refusal_checks."):
        metric = replace(metric, score=_guard(metric))
    METRICS[metric.name] = metric
    return metric


def _guard(metric: Metric) -> Score:
    """Wrap the function of an extension's metric, so that its faults are errors of its gates."""
    score = metric.score

    @wraps(score)
    def scored(answers: Sequence[Record]) -> float | None:
        try:
            found = score(answers)
        except Exception as fault:
            place = traceback.extract_tb(fault.__traceback__)[-1]
            raise EvaluationError(
                f"mend {place.filename}:{place.lineno}: the metric {score.__name__} raised "
                f"{type(fault).__name__}: {fault}"
            ) from fault
        # An interval reaches to the ends of the range, so a wrong range makes it wrong.
        is_mean = metric.counts is None
        if is_mean and found is not None and not metric.holds(found):
            raise EvaluationError(
                f"declare the range of {metric.name}, as in @mean(..., highest=5): it scored "
                f"{found:g}, outside {metric.range_text}"
            )
        return found

    return scored


def group_by_prompt(records: Iterable[Record]) -> dict[str, list[Record]]:
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.prompt.id, []).append(record)
    return grouped


def score_all(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Compute ``Metric.scores`` of all metrics, by name; an extension's that raises has none."""
    prompts = group_by_prompt(records)
    scores: dict[str, dict[str, float]] = {}
    for name, metric in METRICS.items():
        scores[name] = {}
        with suppress(EvaluationError):
            scores[name] = metric.score_prompts(prompts)
    return scores


def explain_missing_figure(records: Sequence[Record]) -> str:
    """Say why there is no figure: the most common reason, with the detail of one answer."""
    faults = [r.judgement for r in records if isinstance(r.judgement, Invalid)]
    if not faults or len(faults) < len(records):
        return f"none of {len(records)} answers counts towards it"
    message = f"no valid verdict among {len(records)} answers"
    reason, count = Counter(fault.reason for fault in faults).most_common(1)[0]
    if reason is Reason.UNPARSABLE_VERDICT:  # the run says once what the judge wrote
        return f"{message}; {count} {reason}: make the judge write what its prompt asks for"
    # One example, because most faults of one kind have one cause, such as a server that is down.
    detail = next(fault.detail for fault in faults if fault.reason is reason)
    example = " ".join(detail.split())[:300]
    return f"{message}; {count} {reason}, for example: {example}"
