"""Compute a gate's figures, and check their intervals against its bounds and margins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.gates.bounds import looser_bounds
from refusal_checks.gates.comparison import Comparison, Earlier, compare
from refusal_checks.gates.estimate_set import EstimateSet
from refusal_checks.gates.gate import (
    AllowedRange,
    Gate,
    OnInconclusive,
    Outcome,
    today,
)
from refusal_checks.metrics import METRICS, worst_cases
from refusal_checks.metrics.refusal import invalid_rate
from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class Rules:
    """Settings for deciding gates.

    Attributes:
        level: confidence level, two-sided for intervals and one-sided for comparisons.
        offenders: most prompts in a list.
        day: the day on which waivers must hold, that of the run's start.
    """

    level: float = 0.95
    offenders: int = 5
    day: date = field(default_factory=today)


@dataclass(frozen=True)
class BoundCheck:
    """One check of a gate: of its figure, or of the figure's change.

    Attributes:
        outcome: the position of the interval.
        met: True if the figure itself is within the limits.
        by_point: True if the figure decides, and an inconclusive outcome only adds a remark.
    """

    outcome: Outcome
    met: bool
    by_point: bool

    def in_worst_cases(self, cases: Sequence[Outcome]) -> BoundCheck:
        """The check, changed so that it holds however invalid answers are counted.

        A breach stays a breach: missing answers must not soften it.
        """
        if self.outcome is Outcome.FAIL or set(cases) <= {self.outcome}:
            return self
        if set(cases) == {Outcome.FAIL}:
            return replace(self, outcome=Outcome.FAIL)
        return self.in_doubt()

    def in_doubt(self) -> BoundCheck:
        return replace(self, outcome=Outcome.INCONCLUSIVE)

    def result(self, on_inconclusive: OnInconclusive | None) -> OnInconclusive:
        """The result that this check alone gives the gate's test."""
        if self.by_point and not self.met:
            return "fail"
        if self.outcome is Outcome.PASS:
            return "pass"
        if self.outcome is Outcome.FAIL:
            return "fail"
        return on_inconclusive or ("pass" if self.by_point else "fail")


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several checks: a breach outweighs doubt, and doubt outweighs a pass."""
    order = [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    return max(outcomes, key=order.index, default=Outcome.PASS)


def check_figure(gate: Gate, estimate: Estimate) -> BoundCheck:
    """Compare a figure and its interval with a gate's bounds."""
    return BoundCheck(
        outcome=gate.limits.outcome(estimate.lower, estimate.upper),
        met=gate.limits.holds(estimate.value),
        by_point=gate.decision == "point",
    )


def check_change(comparison: Comparison, limits: AllowedRange) -> BoundCheck:
    """Compare the change with its margins: a non-inferiority test at the confidence level.

    The margin is kept if the one-sided bound of the change is within it, breached if the other
    bound is beyond it, and the check is inconclusive otherwise. To pass, it must also pass with
    every answer without a verdict, in either run, counted against it.
    """
    outcome = limits.outcome(comparison.lower, comparison.upper)
    met = limits.holds(comparison.change.value)
    check = BoundCheck(outcome, met, by_point=False)
    if comparison.worst is None:
        return check
    return check.in_worst_cases([limits.outcome(*comparison.worst)])


@dataclass(frozen=True)
class GateFigures:
    """A gate's figures and checks, before several gates are decided together.

    Attributes:
        rate: the figure; its records are those that the gate looks at.
        estimate: the figure over the prompts that were evaluated.
        cases: the figure with all invalid answers counted as one verdict, by that verdict's name.
        figure: the check of the figure; None without bounds on it.
        change: the check of its change; None without margins, or without a baseline.
    """

    gate: Gate
    rate: EstimateSet
    estimate: Estimate
    cases: Mapping[str, Estimate]
    figure: BoundCheck | None
    change: BoundCheck | None
    comparison: Comparison | None

    @property
    def checks(self) -> list[BoundCheck]:
        return [check for check in (self.figure, self.change) if check]


def select(gate: Gate, records: Sequence[Record]) -> list[Record]:
    return [record for record in records if gate.looks_at(record.prompt)]


def figures_of(
    gate: Gate,
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None,
) -> GateFigures:
    """Compute a gate's figures and checks from all records of its benchmark.

    Raises EvaluationError if no answer has a valid verdict, if too many have none because a server
    failed, or if the gate has margins and no prompt can be compared with the baseline.
    """
    seen = select(gate, records)
    rate = EstimateSet(METRICS[gate.metric], seen)
    estimate = rate.estimate(rules.level)
    cases = {
        name: rate.metric.estimate(case, rules.level)
        for name, case in worst_cases(rate.metric, seen).items()
    }
    figure = change = None
    if gate.has_bounds:
        figure = _figure_check(gate, rate, estimate, cases.values())
        _require_answers(gate, seen, figure, rules)
    comparison = None
    if earlier:
        comparison = _comparison(gate, rate, earlier, rules)
        if gate.has_margins:
            change = _change_check(gate, rate, comparison)
    return GateFigures(gate, rate, estimate, cases, figure, change, comparison)


def _require_answers(
    gate: Gate, seen: Sequence[Record], figure: BoundCheck, rules: Rules
) -> None:
    """Raise EvaluationError if a bound on invalid answers is missed only by a server's faults."""
    is_missed = figure.result(gate.on_inconclusive) == "fail"
    lost = [record for record in seen if record.is_lost]
    if gate.metric != invalid_rate.name or not is_missed or not lost:
        return
    rest = [record for record in seen if not record.is_lost]
    if rest:
        rate = EstimateSet(METRICS[gate.metric], rest)
        estimate = rate.estimate(rules.level)
        check = _figure_check(gate, rate, estimate, ())
        if check.result(gate.on_inconclusive) == "fail":
            return
    fault = lost[0].judgement
    detail = " ".join(fault.rationale.split())[:300]
    raise EvaluationError(
        f"run the same command again, which asks for these alone: {len(lost)} of {len(seen)} "
        f"answers have no verdict because a server failed, for example {fault.verdict}: {detail}"
    )


def _figure_check(
    gate: Gate,
    rate: EstimateSet,
    estimate: Estimate,
    cases: Iterable[Estimate],
) -> BoundCheck:
    if not rate.metric.sampled and gate.decision == "point":
        # The figure is about the run's own answers, all of which are known, so it is certain.
        met = gate.limits.holds(estimate.value)
        outcome = Outcome.PASS if met else Outcome.FAIL
        check = BoundCheck(outcome, met, by_point=True)
    else:
        check = check_figure(gate, estimate)
    return check.in_worst_cases([check_figure(gate, case).outcome for case in cases])


def _comparison(
    gate: Gate, rate: EstimateSet, earlier: Earlier, rules: Rules
) -> Comparison | None:
    comparison = compare(
        rate,
        earlier,
        level=rules.level,
        limit=rules.offenders,
        whole=gate.group is None,
    )
    if comparison is None:
        return None
    looser = looser_bounds(gate, earlier.scores.bounds.get(gate.id, {}))
    return replace(comparison, looser=tuple(looser))


def _change_check(
    gate: Gate, rate: EstimateSet, comparison: Comparison | None
) -> BoundCheck:
    if comparison is None:
        raise EvaluationError(f"{gate.metric}: no prompt in common with the baseline")
    return check_change(comparison, gate.change_limits)
