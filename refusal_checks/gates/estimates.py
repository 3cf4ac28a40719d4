"""Comparing an interval with a bound, and what the result means for a test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from statistics import NormalDist

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.gates import compare, waivers
from refusal_checks.gates.compare import Comparison, Earlier
from refusal_checks.gates.early_stopping import level_once_watched
from refusal_checks.gates.gate import (
    TOLERANCE,
    AllowedRange,
    Gate,
    MultipleTesting,
    OnInconclusive,
    Outcome,
)
from refusal_checks.gates.rates import HumanRates, RateView
from refusal_checks.metrics import METRICS, Metric, worst_cases
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import Estimate, is_wilson


def check_change(
    comparison: Comparison, limits: AllowedRange, metric: Metric, level: float
) -> BoundCheck:
    """Compare the change with its margins: a non-inferiority test at the confidence level.

    It passes if the one-sided bound of the change is within the margin, is breached if the other
    bound is beyond it, and is inconclusive otherwise. It passes only if it also does with every
    answer without a verdict, of either run, counted against it.
    """
    change = comparison.change.value
    made = BoundCheck(
        outcome=limits.outcome(comparison.lower, comparison.upper),
        met=limits.holds(change),
        by_point=False,
        p_breach=_p_breach(comparison, limits, metric, level),
    )
    return made.in_worst_cases([limits.outcome(*comparison.worst)] if comparison.worst else [])


def _p_breach(comparison: Comparison, limits: AllowedRange, metric: Metric, level: float) -> float:
    change = comparison.change.value
    if comparison.p_flips is None:
        return p_normal(change, comparison.lower, comparison.upper, limits, level)
    if limits.holds(change):
        return 1.0
    margin = limits.nearest(change)
    z = float(paired.tango(comparison.lost, comparison.gained, comparison.change.n, margin))
    return NormalDist().cdf(-abs(z))


@dataclass(frozen=True)
class BoundCheck:
    """One comparison of a gate: of its figure, or of the figure's change.

    Attributes:
        outcome: the position of the interval.
        met: the figure itself is within the limits.
        by_point: the figure decides, and an inconclusive outcome only adds a remark.
        p_breach: probability of a figure at least this far beyond its limits if the true one were
            just within them; 1 for a figure within.
    """

    outcome: Outcome
    met: bool
    by_point: bool
    p_breach: float

    def in_worst_cases(self, cases: Sequence[Outcome]) -> BoundCheck:
        """The check, which holds only if it does however invalid answers are counted.

        A breach stays one: that answers are missing must not soften it.

        Args:
            cases: positions of the interval in the worst cases; empty without invalid answers.
        """
        if self.outcome is Outcome.FAIL or {*cases} <= {self.outcome}:
            return self
        breached = {*cases} == {Outcome.FAIL}
        return replace(self, outcome=Outcome.FAIL if breached else Outcome.INCONCLUSIVE)

    def result(self, on_inconclusive: OnInconclusive | None) -> OnInconclusive:
        """The result of the gate's test by this check alone."""
        if self.by_point and not self.met:
            return "fail"
        if self.outcome is Outcome.INCONCLUSIVE:
            return on_inconclusive or ("pass" if self.by_point else "fail")
        return "pass" if self.outcome is Outcome.PASS else "fail"


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several checks: a breach outweighs doubt, doubt outweighs a pass."""
    order = [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    return max(outcomes, key=order.index, default=Outcome.PASS)


def p_breach(estimate: Estimate, limits: AllowedRange, is_share: bool, confidence: float) -> float:
    """One-sided p-value of a figure beyond its limits.

    Shares of independent prompts use the exact binomial test, because the normal approximation is
    too bold in the far tail, where corrections for several tests look. All else (means, shares with
    clusters or after an early stop) uses the normal approximation of its own interval.
    """
    if not is_share or not is_wilson(estimate, confidence):
        return p_normal(
            estimate.value, estimate.lower, estimate.upper, limits, (1 + confidence) / 2
        )
    if limits.holds(estimate.value):
        return 1.0
    from scipy.stats import binom  # takes seconds to import, which collection need not wait for

    bound, count = limits.nearest(estimate.value), round(estimate.value * estimate.n)
    below = estimate.value < bound
    tail = binom.cdf(count, estimate.n, bound) if below else binom.sf(count - 1, estimate.n, bound)
    return float(tail)


def p_normal(
    value: float, lower: float, upper: float, limits: AllowedRange, quantile: float
) -> float:
    """One-sided p-value of a value beyond its limits, by the normal approximation.

    Args:
        lower, upper: its interval, from which the standard error is derived.
        quantile: probability that the true value lies below ``upper``.
    """
    if limits.holds(value):
        return 1.0
    bound = limits.nearest(value)
    error = abs((upper if value < bound else lower) - value) / NormalDist().inv_cdf(quantile)
    return NormalDist().cdf(-abs(value - bound) / error) if error > 0 else 0.0


def holm(checks: Sequence[BoundCheck], alpha: float) -> list[BoundCheck]:
    """The checks, with breaches that chance may explain among several made inconclusive.

    The probability that the result contains any false breach is at most alpha.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
    of Statistics 6 (1979).
    """
    rejected: set[int] = set()
    for rank, index in enumerate(sorted(range(len(checks)), key=lambda i: checks[i].p_breach)):
        if checks[index].p_breach > alpha / (len(checks) - rank):
            break
        rejected.add(index)
    return [
        replace(check, outcome=Outcome.INCONCLUSIVE)
        if check.outcome is Outcome.FAIL and index not in rejected
        else check
        for index, check in enumerate(checks)
    ]


Estimator = Callable[[Gate, Sequence[Record]], Estimate]
"""Estimates a gate's figure from a part of the prompts: see ``early_stopping``."""


@dataclass(frozen=True)
class Rules:
    """How gates are decided.

    Attributes:
        level: confidence level, two-sided for intervals and one-sided for comparisons.
        multiple_testing: correction over the gates of a benchmark.
        offenders: most prompts that a list names.
        human: what is known of people's verdicts.
        watched: gates were looked at while answers came, see ``early_stopping``.
        day: on which waivers must hold; that of the run's start.
    """

    level: float = 0.95
    multiple_testing: MultipleTesting = "none"
    offenders: int = 5
    human: HumanRates = field(default_factory=HumanRates)
    watched: bool = False
    day: date = field(default_factory=waivers.today)


@dataclass(frozen=True)
class GateFigures:
    """A gate's figures before several gates are decided together.

    Attributes:
        records: those that the gate looks at.
        cases: the figure with every invalid answer counted as one verdict, by that verdict's name.
        figure, change: the checks of the figure and of its change; None without bounds on it, or
            without a baseline.
        views: the figure in all the ways it is known; empty if the judge's is the only one.
        used: the view that decides, unless that is the judge's figure.
    """

    gate: Gate
    records: Sequence[Record]
    estimate: Estimate
    cases: Mapping[str, Estimate]
    figure: BoundCheck | None
    change: BoundCheck | None
    comparison: Comparison | None
    views: tuple[RateView, ...] = ()
    used: RateView | None = None

    @property
    def is_share(self) -> bool:
        """True if the figure is a share of the prompts."""
        return self.metric.counts is not None and self.used is None

    @property
    def metric(self) -> Metric:
        """The gate's metric."""
        return METRICS[self.gate.metric]

    @property
    def checks(self) -> list[BoundCheck]:
        """The checks that were made."""
        return [check for check in (self.figure, self.change) if check]


def select(gate: Gate, records: Sequence[Record]) -> list[Record]:
    """The records that a gate looks at: all, or those of its group."""
    return [record for record in records if gate.concerns(record.prompt.groups)]


def find(
    gate: Gate,
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None,
    estimator: Estimator | None,
) -> GateFigures:
    """A gate's figures and checks.

    Args:
        records: all records of the gate's benchmark.

    Raises:
        EvaluationError: no answer has a valid verdict, or the gate has margins and no prompt can
            be compared with the baseline.
    """
    metric, seen = METRICS[gate.metric], select(gate, records)
    views = rules.human.views(gate, seen)
    used = rules.human.used(gate, views)
    rules.human.require_decided(gate, used)
    estimate_of = estimator or (lambda gate, records: _figure(gate, records, rules))
    estimate = estimate_of(gate, seen)
    cases = {
        name: _extreme(gate, case, seen, estimate_of)
        for name, case in worst_cases(metric, seen).items()
    }
    figure = check_figure(gate, metric, estimate, rules, used) if gate.has_bounds else None
    is_whole = gate.spared or not estimator
    if figure and not metric.sampled and gate.decision == "point" and is_whole:
        figure = of_own_answers(gate, estimate, len(seen))
    compared = _compare(gate, seen, rules, earlier, estimator is None) if earlier else None
    return GateFigures(
        gate=gate,
        records=seen,
        estimate=estimate,
        cases=cases,
        figure=figure and figure.in_worst_cases([_outcome(gate, case) for case in cases.values()]),
        change=check_change(compared, gate.change_limits, metric, rules.level)
        if compared and gate.has_margins
        else None,
        comparison=compared,
        views=views,
        used=used,
    )


def _extreme(
    gate: Gate, case: Sequence[Record], seen: Sequence[Record], estimate_of: Estimator
) -> Estimate:
    """The figure in a worst case.

    One that no calibration allows, because its judge would not call so many answers refusals, or
    so few, is as extreme as a figure can be.
    """
    try:
        return estimate_of(gate, case)
    except EvaluationError:
        metric = METRICS[gate.metric]
        judged = metric.estimate(case)
        is_high = judged.value > metric.estimate(seen).value
        end = metric.highest if is_high else metric.lowest
        return Estimate(end, end, end, judged.n)


def _figure(gate: Gate, records: Sequence[Record], rules: Rules) -> Estimate:
    """The figure that decides a gate."""
    used = rules.human.used(gate, rules.human.views(gate, records))
    if used:
        return used.estimate
    prompts = (record.prompt for record in records if record.sample == 0)
    level = level_once_watched(gate, prompts, rules.level) if rules.watched else rules.level
    return METRICS[gate.metric].estimate(records, level)


def _compare(
    gate: Gate, records: Sequence[Record], rules: Rules, earlier: Earlier, whole: bool
) -> Comparison | None:
    compared = compare.compare(
        METRICS[gate.metric],
        records,
        earlier,
        level=rules.level,
        limit=rules.offenders,
        whole=whole and gate.group is None,
    )
    if compared is None and gate.has_margins:
        raise EvaluationError(f"{gate.metric}: no prompt in common with the baseline")
    return compared


def _outcome(gate: Gate, estimate: Estimate) -> Outcome:
    return gate.limits.outcome(estimate.lower, estimate.upper)


def check_figure(
    gate: Gate, metric: Metric, estimate: Estimate, rules: Rules, used: RateView | None = None
) -> BoundCheck:
    """Compare a figure with a gate's bounds.

    Args:
        used: the view that the figure comes from, unless it is the judge's.
    """
    is_share = metric.counts is not None and used is None
    return BoundCheck(
        outcome=_outcome(gate, estimate),
        met=gate.limits.holds(estimate.value),
        by_point=gate.decision == "point",
        p_breach=p_breach(estimate, gate.limits, is_share, rules.level),
    )


def of_own_answers(gate: Gate, estimate: Estimate, answers: int) -> BoundCheck:
    """Check a figure of the run's own answers: all of them are known, so it is in no doubt.

    Args:
        answers: how many there are.
    """
    spared = estimate.value * answers <= gate.spared + TOLERANCE * answers
    met = gate.limits.holds(estimate.value) or spared
    return BoundCheck(Outcome.PASS if met else Outcome.FAIL, met, True, float(met))


def with_holm(gates: Mapping[str, GateFigures], alpha: float) -> dict[str, GateFigures]:
    """The gates of one benchmark after Holm's correction of all checks that chance may breach."""
    by_chance = {name: figures for name, figures in gates.items() if figures.metric.sampled}
    checks = iter(holm([each for figures in by_chance.values() for each in figures.checks], alpha))
    corrected = {
        name: replace(
            figures,
            figure=next(checks) if figures.figure else None,
            change=next(checks) if figures.change else None,
        )
        for name, figures in by_chance.items()
    }
    return {name: corrected.get(name, figures) for name, figures in gates.items()}


def expected_breaches(gates: Collection[Gate], level: float) -> tuple[float, float]:
    """Spurious failures to expect, uncorrected, if every true figure lay exactly on its bound.

    Returns:
        How many gates would be called breached at the confidence level, and how many tests would
        fail: half of those decided by their figure, and of the others those called breached.
    """
    gates = [gate for gate in gates if METRICS[gate.metric].sampled]
    bounded = [gate for gate in gates if gate.has_bounds]
    by_point = sum(gate.decision == "point" for gate in bounded)
    tail = (1 - level) / 2
    breached = len(bounded) * tail + sum(gate.has_margins for gate in gates) * (1 - level)
    return breached, breached + by_point * (0.5 - tail)
