"""The figures of a gate and the result of each check, before gates are decided together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.gates import comparison, waiver
from refusal_checks.gates.bounds import MultipleTesting
from refusal_checks.gates.checks import TOLERANCE, BoundCheck, Outcome, holm, p_breach
from refusal_checks.gates.comparison import Comparison, Earlier
from refusal_checks.gates.early_stopping import level_once_watched
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.human_rates import HumanRates
from refusal_checks.gates.rate_views import RateView
from refusal_checks.metrics import METRICS, Metric, worst_cases
from refusal_checks.metrics.statistics.intervals import Estimate

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
    day: date = field(default_factory=waiver.today)


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
        change=comparison.check(compared, gate.change_limits, metric, rules.level)
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
    compared = comparison.compare(
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
