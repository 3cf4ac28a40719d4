"""The figures of a gate, and what their intervals say of its bounds and margins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from statistics import NormalDist
from typing import TypeVar

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Comparison, Earlier, compare
from refusal_checks.gates.early_stopping import level_once_watched
from refusal_checks.gates.gate import (
    TOLERANCE,
    AllowedRange,
    Gate,
    MultipleTesting,
    OnInconclusive,
    Outcome,
    today,
)
from refusal_checks.gates.rates import EstimateSet, Evidence
from refusal_checks.gates.wording import looser_bounds
from refusal_checks.metrics import METRICS, worst_cases
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import Estimate, is_wilson

Name = TypeVar("Name")  # by which several gates' figures are told apart

Estimator = Callable[[Gate, Sequence[Record]], Estimate]
"""Estimates a gate's figure from a part of the prompts: see ``early_stopping``."""


@dataclass(frozen=True)
class Rules:
    """How gates are decided."""

    level: float = (
        0.95  # confidence level, two-sided for intervals and one-sided for comparisons
    )
    multiple_testing: MultipleTesting = "none"
    offenders: int = 5  # most prompts that a list names
    evidence: Evidence = field(default_factory=Evidence)
    watched: bool = (
        False  # gates were looked at while answers came, see `early_stopping`
    )
    day: date = field(
        default_factory=today
    )  # on which waivers must hold; that of the run's start


@dataclass(frozen=True)
class BoundCheck:
    """One comparison of a gate: of its figure, or of the figure's change."""

    outcome: Outcome  # the position of the interval
    met: bool  # the figure itself is within the limits
    by_point: bool  # the figure decides, and an inconclusive outcome only adds a remark
    # probability of a figure at least this far beyond its limits if the true one were just within
    # them; 1 for a figure within
    p_breach: float = 1.0

    def in_worst_cases(self, cases: Sequence[Outcome]) -> BoundCheck:
        """The check, which holds only if it does however invalid answers are counted.

        A breach stays one: that answers are missing must not soften it.
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


def check_figure(gate: Gate, estimate: Estimate) -> BoundCheck:
    """Compare a figure with a gate's bounds, whatever chance has to do with it."""
    return BoundCheck(
        outcome=gate.limits.outcome(estimate.lower, estimate.upper),
        met=gate.limits.holds(estimate.value),
        by_point=gate.decision == "point",
    )


def check_change(
    comparison: Comparison, limits: AllowedRange, level: float
) -> BoundCheck:
    """Compare the change with its margins: a non-inferiority test at the confidence level.

    It passes if the one-sided bound of the change is within the margin, is breached if the other
    bound is beyond it, and is inconclusive otherwise. It passes only if it also does with every
    answer without a verdict, of either run, counted against it, and never where only the judge saw
    the change although this run's figure rests on more.
    """
    change = comparison.one_sided
    met, p = limits.holds(change.value), 1.0
    if comparison.p_flips is None:
        p = p_normal(change, limits, level)
    elif not met:
        margin = limits.nearest(change)
        z = float(paired.tango(comparison.lost, comparison.gained, change.n, margin))
        p = NormalDist().cdf(-abs(z))
    made = BoundCheck(
        limits.outcome(change.lower, change.upper), met, by_point=False, p_breach=p
    )
    if comparison.missing and made.outcome is Outcome.PASS:
        return replace(made, outcome=Outcome.INCONCLUSIVE)
    return made.in_worst_cases(
        [limits.outcome(*comparison.worst)] if comparison.worst else []
    )


def p_breach(
    estimate: Estimate, limits: AllowedRange, is_share: bool, confidence: float
) -> float:
    """One-sided p-value of a figure beyond its limits.

    Shares of independent prompts use the exact binomial test, because the normal approximation is
    too bold in the far tail, where corrections for several tests look. All else (means, shares with
    clusters or after an early stop) uses the normal approximation of its own interval.
    """
    value, n = estimate.value, estimate.n
    if not is_share or not is_wilson(estimate, confidence):
        return p_normal(estimate, limits, (1 + confidence) / 2)
    if limits.holds(value):
        return 1.0
    from scipy.stats import (
        binom,
    )  # takes seconds to import, which collection need not wait for

    bound, count = limits.nearest(estimate), round(value * n)
    return float(
        binom.cdf(count, n, bound) if value < bound else binom.sf(count - 1, n, bound)
    )


def p_normal(found: Estimate, limits: AllowedRange, quantile: float) -> float:
    """The same by the normal approximation; ``upper`` is that quantile of the true value."""
    value = found.value
    if limits.holds(value):
        return 1.0
    bound = limits.nearest(found)
    leg = abs((found.upper if value < bound else found.lower) - value)
    error = leg / NormalDist().inv_cdf(quantile)
    return NormalDist().cdf(-abs(value - bound) / error) if error > 0 else 0.0


@dataclass(frozen=True)
class GateFigures:
    """A gate's figures before several gates are decided together."""

    gate: Gate
    rate: EstimateSet  # what the figure rests on; its records are those that the gate looks at
    estimate: Estimate  # of the part of the prompts that was evaluated
    # the figure with every invalid answer counted as one verdict, by that verdict's name
    cases: Mapping[str, Estimate]
    # figure, change: None without bounds on it, or without a baseline
    figure: BoundCheck | None
    change: BoundCheck | None
    comparison: Comparison | None

    @property
    def checks(self) -> list[BoundCheck]:
        return [check for check in (self.figure, self.change) if check]


def select(gate: Gate, records: Sequence[Record]) -> list[Record]:
    return [record for record in records if gate.looks_at(record.prompt)]


def find(
    gate: Gate,
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None,
    estimator: Estimator | None,
) -> GateFigures:
    """A gate's figures and checks, from all records of its benchmark.

    An EvaluationError if no answer has a valid verdict, or if the gate has margins and no prompt
    can be compared with the baseline.
    """
    metric, seen, level = METRICS[gate.metric], select(gate, records), rules.level
    if rules.watched:
        level = level_once_watched(
            gate, [r.prompt for r in seen if r.sample == 0], level
        )
    rate = rules.evidence.rate(gate, seen, rules.level)
    rate.require_decided(gate)

    def in_case(judged: Sequence[Record]) -> Estimate:
        try:
            if estimator:
                return estimator(gate, judged)
            return rules.evidence.rate(gate, judged, rules.level).estimate(level)
        except (
            EvaluationError
        ):  # a calibration's judge would not call so many refusals, or so few
            counted = metric.estimate(judged)
            is_high = counted.value > metric.estimate(seen).value
            end = metric.highest if is_high else metric.lowest
            return Estimate(end, end, end, counted.n)

    estimate = estimator(gate, seen) if estimator else rate.estimate(level)
    cases = {name: in_case(case) for name, case in worst_cases(metric, seen).items()}
    figure = None
    if gate.has_bounds:
        p = p_breach(estimate, gate.limits, rate.is_share, rules.level)
        figure = replace(check_figure(gate, estimate), p_breach=p)
        is_whole = gate.spared or not estimator
        if not metric.sampled and gate.decision == "point" and is_whole:
            # It is of the run's own answers, all of which are known, so it is in no doubt.
            spared = estimate.value * len(seen) <= gate.spared + TOLERANCE * len(seen)
            met = figure.met or spared
            figure = BoundCheck(
                Outcome.PASS if met else Outcome.FAIL, met, True, float(met)
            )
        figure = figure.in_worst_cases(
            [check_figure(gate, e).outcome for e in cases.values()]
        )
        if rate.is_doubtful and figure.outcome is Outcome.PASS:
            figure = replace(figure, outcome=Outcome.INCONCLUSIVE)
    compared = change = None
    if gate.is_total:
        earlier = earlier and earlier.anchor
    if earlier:
        is_whole = gate.group is None and not estimator
        compared = compare(
            rate, earlier, level=rules.level, limit=rules.offenders, whole=is_whole
        )
        if compared:
            looser = looser_bounds(gate, earlier.scores.bounds.get(gate.id, {}))
            compared = replace(compared, looser=tuple(looser))
            plain = replace(
                gate, is_total=False
            ).id  # by which the anchor has its views
            compared = compared.seen_as(rate, earlier.scores, plain, rules.level)
    if earlier and gate.has_margins:
        if compared is None:
            raise EvaluationError(
                f"{gate.metric}: no prompt in common with the baseline"
            )
        change = check_change(compared, gate.change_limits, rules.level)
        if rate.misread and change.outcome is Outcome.PASS:
            change = replace(change, outcome=Outcome.INCONCLUSIVE)
    return GateFigures(gate, rate, estimate, cases, figure, change, compared)


def holm(checks: Sequence[BoundCheck], alpha: float) -> list[BoundCheck]:
    """The checks, of which those that chance may explain among several are breached no more.

    The probability that the result contains any false breach is at most alpha.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
    of Statistics 6 (1979).
    """
    found = list(checks)
    ranked = sorted(range(len(found)), key=lambda index: found[index].p_breach)
    stands = True
    for rank, index in enumerate(ranked):
        stands = stands and found[index].p_breach <= alpha / (len(found) - rank)
        if not stands and found[index].outcome is Outcome.FAIL:
            found[index] = replace(found[index], outcome=Outcome.INCONCLUSIVE)
    return found


def with_holm(
    gates: Mapping[Name, GateFigures], alpha: float
) -> dict[Name, GateFigures]:
    """The gates of one benchmark after Holm's correction of all checks that chance may breach."""
    by_chance = {name: each for name, each in gates.items() if each.rate.metric.sampled}
    checks = iter(
        holm([check for each in by_chance.values() for check in each.checks], alpha)
    )
    return dict(gates) | {
        name: replace(
            each,
            figure=next(checks) if each.figure else None,
            change=next(checks) if each.change else None,
        )
        for name, each in by_chance.items()
    }


def expected_breaches(gates: Collection[Gate], level: float) -> tuple[float, float]:
    """Spurious failures to expect, uncorrected, if every true figure lay exactly on its bound.

    How many gates would be called breached at the confidence level, and how many tests would fail:
    half of those decided by their figure, and of the others those called breached.
    """
    gates = [gate for gate in gates if METRICS[gate.metric].sampled]
    bounded = [gate for gate in gates if gate.has_bounds]
    by_point = sum(gate.decision == "point" for gate in bounded)
    tail = (1 - level) / 2
    breached = len(bounded) * tail + sum(gate.has_margins for gate in gates) * (
        1 - level
    )
    return breached, breached + by_point * (0.5 - tail)
