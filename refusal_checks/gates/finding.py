"""The figures of a gate and what each check makes of them, before gates are decided together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates import comparison
from refusal_checks.gates.bounds import MultipleTesting
from refusal_checks.gates.checks import AllowedRange, Check, holm, p_breach
from refusal_checks.gates.comparison import Comparison, Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.human_rates import HumanRates, View
from refusal_checks.metrics import METRICS, Metric, worst_cases, worst_names
from refusal_checks.metrics.statistics.intervals import Estimate

Estimator = Callable[[Gate, Sequence[Record]], Estimate]
"""Another way to a gate's estimate than from all prompts: see ``early``."""


@dataclass(frozen=True)
class Rules:
    """How gates are decided.

    Attributes:
        level: confidence level, two-sided for intervals and one-sided for comparisons.
        multiple_testing: correction over the gates of a benchmark.
        offenders: most prompts that a list names.
        human: what is known of people's verdicts.
    """

    level: float = 0.95
    multiple_testing: MultipleTesting = "none"
    offenders: int = 5
    human: HumanRates = field(default_factory=HumanRates)


@dataclass(frozen=True)
class Finding:
    """A gate's figures before several gates are decided together.

    Attributes:
        records: those that the gate looks at.
        cases: the figure with every invalid answer counted as a verdict, by that verdict's name.
        figure, change: the checks of the figure and of its change; None where the gate has none,
            or no baseline.
        views: the figure in all the ways it is known; empty where the judge's is the only one.
        used: the way that decides, where that is not the judge's.
    """

    gate: Gate
    records: Sequence[Record]
    estimate: Estimate
    cases: Mapping[str, Estimate]
    figure: Check | None
    change: Check | None
    comparison: Comparison | None
    views: tuple[View, ...] = ()
    used: View | None = None

    @property
    def is_share(self) -> bool:
        """Whether the figure is a count of prompts."""
        return self.metric.counts is not None and self.used is None

    @property
    def metric(self) -> Metric:
        """The gate's metric."""
        return METRICS[self.gate.metric]

    @property
    def limits(self) -> AllowedRange:
        """Of the figure."""
        return AllowedRange(self.gate.minimum, self.gate.maximum)

    @property
    def margins(self) -> AllowedRange:
        """Of the change."""
        return margins(self.gate)

    @property
    def checks(self) -> list[Check]:
        """What was checked."""
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
) -> Finding:
    """A gate's figures and checks.

    Args:
        records: all records of the gate's benchmark.

    Raises:
        EvaluationError: no answer has a valid verdict, or none can be compared with the baseline
            though the gate says so.
    """
    metric, seen = METRICS[gate.metric], select(gate, records)
    views = rules.human.views(gate, seen)
    used = rules.human.used(gate, views)
    usual = estimator or (lambda gate, records: _figure(gate, records, rules))
    estimate = usual(gate, seen)
    compared = _compare(gate, seen, rules, earlier, estimator is None) if earlier else None
    return Finding(
        gate=gate,
        records=seen,
        estimate=estimate,
        cases={name: usual(gate, case) for name, case in _cases(metric, seen).items()},
        figure=check_figure(gate, metric, estimate, rules, used) if gate.has_bounds else None,
        change=comparison.check(compared, margins(gate), metric, rules.level)
        if compared and gate.has_margins
        else None,
        comparison=compared,
        views=views,
        used=used,
    )


def _figure(gate: Gate, records: Sequence[Record], rules: Rules) -> Estimate:
    """The figure that decides a gate."""
    used = rules.human.used(gate, rules.human.views(gate, records))
    return used.estimate if used else METRICS[gate.metric].estimate(records, rules.level)


def _compare(
    gate: Gate, records: Sequence[Record], rules: Rules, earlier: Earlier, whole: bool
) -> Comparison | None:
    found = comparison.compare(
        METRICS[gate.metric],
        records,
        earlier,
        level=rules.level,
        limit=rules.offenders,
        whole=whole and gate.group is None,
    )
    if found is None and gate.has_margins:
        raise EvaluationError(f"{gate.metric}: no prompt in common with the baseline")
    return found


def margins(gate: Gate) -> AllowedRange:
    """The range of the change that a gate allows."""
    return AllowedRange(None if gate.max_drop is None else -gate.max_drop, gate.max_rise)


def _cases(metric: Metric, records: Sequence[Record]) -> dict[str, list[Record]]:
    if not metric.blurred or not any(isinstance(r.judgement, Invalid) for r in records):
        return {}
    return dict(zip(worst_names(records), worst_cases(records), strict=True))


def check_figure(
    gate: Gate, metric: Metric, estimate: Estimate, rules: Rules, used: View | None = None
) -> Check:
    """Compare a figure with a gate's bounds.

    Args:
        used: where it is not the judge's figure.
    """
    is_share = metric.counts is not None and used is None
    limits = AllowedRange(gate.minimum, gate.maximum)
    return Check(
        outcome=limits.outcome(estimate.lower, estimate.upper),
        met=limits.holds(estimate.value),
        by_point=gate.decision == "point",
        p_breach=p_breach(estimate, limits, is_share, rules.level),
    )


def corrected(found: Mapping[str, Finding], alpha: float) -> dict[str, Finding]:
    """The findings of a family, after Holm's correction of all of their checks."""
    family = [check for finding in found.values() for check in finding.checks]
    after = iter(holm(family, alpha))
    return {
        id: replace(
            finding,
            figure=next(after) if finding.figure else None,
            change=next(after) if finding.change else None,
        )
        for id, finding in found.items()
    }


def expected_breaches(gates: Iterable[Gate], level: float) -> tuple[float, float]:
    """False alarms to expect without correction if every figure lay exactly on its bound.

    Returns:
        How many gates would be called breached at the confidence level, and how many tests would
        fail: half of those that the point decides, and of the others those called breached.
    """
    found = list(gates)
    figures = [(1 - level) / 2 for gate in found if gate.has_bounds]
    changes = [1 - level for gate in found if gate.has_margins]
    by_point = sum(gate.has_bounds and gate.decision == "point" for gate in found)
    breached = sum(figures) + sum(changes)
    return breached, breached + by_point * (0.5 - (1 - level) / 2)
