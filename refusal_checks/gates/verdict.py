"""Estimate x gate -> verdict: whether a figure is on the right side, how sure that is, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.bounds import Use
from refusal_checks.gates.checks import AllowedRange, Outcome, worst
from refusal_checks.gates.comparison import Comparison, Earlier
from refusal_checks.gates.finding import Estimator, Finding, Rules, check_figure, corrected, find
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.human_rates import View
from refusal_checks.gates.judge_noise import Noise
from refusal_checks.gates.offenders import Offender, counts_against, offender
from refusal_checks.metrics import by_prompt
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import Need


@dataclass(frozen=True)
class Verdict:
    """What a gate found.

    Attributes:
        passed: whether its test passes.
        bounds: the figure with every invalid answer counted as either extreme, the lower first.
        answers: how many were sampled.
        invalid: share of answers without a verdict.
        outcome: what is known of the gate's bounds at the confidence level.
        warns: whether the test passes with a warning, because nothing is decided.
        extremes: the same two figures by the verdict that invalid answers are counted as.
        flips: whether the invalid answers alone decide the test.
        need: what would decide, where the interval spans a bound.
        missed_by: for a share, prompts that would have to change sides; None for other figures
            and where the figure is within the bounds.
        counted_against: how many prompts count against the gate.
        offenders: some of these, worst first; empty where the figure is within the bounds.
        comparison: with the baseline, where there is one.
        skipped: what could not be checked, and why; empty where all could.
        level: confidence level of all of this.
        views: the figure in all the ways it is known; empty where the judge's is the only one.
        use: the way that decides.
        noise: of the judge, where it judged more than once.
    """

    gate: Gate
    passed: bool
    estimate: Estimate
    bounds: tuple[float, float]
    answers: int
    invalid: float
    outcome: Outcome = Outcome.PASS
    warns: bool = False
    extremes: tuple[tuple[str, float], ...] = ()
    flips: bool = False
    need: Need | None = None
    missed_by: int | None = None
    counted_against: int = 0
    offenders: tuple[Offender, ...] = ()
    comparison: Comparison | None = None
    skipped: str = ""
    level: float = 0.95
    views: tuple[View, ...] = ()
    use: Use = "raw"
    noise: Noise | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the gate could be checked."""
        return bool(self.skipped) and not self.gate.has_bounds


def decide(
    gate: Gate,
    records: Sequence[Record],
    rules: Rules | None = None,
    earlier: Earlier | None = None,
) -> Verdict:
    """Decide a gate on its own.

    Args:
        records: all records of the gate's benchmark.
        earlier: the run that changes are measured against.

    Raises:
        EvaluationError: no answer has a valid verdict.
    """
    rules = rules or Rules()
    return _verdict(find(gate, records, rules, earlier, None), rules)


def decide_all(
    gates: Sequence[Gate],
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None = None,
    estimator: Estimator | None = None,
) -> dict[str, Verdict | EvaluationError]:
    """Decide the gates of one benchmark together, by gate id; an error stands for its verdict.

    Args:
        estimator: where only some of the prompts were evaluated.
    """
    found: dict[str, Finding] = {}
    errors: dict[str, Verdict | EvaluationError] = {}
    for gate in gates:
        try:
            found[gate.id] = find(gate, records, rules, earlier, estimator)
        except EvaluationError as fault:
            errors[gate.id] = fault
    if rules.multiple_testing == "holm":
        found = corrected(found, 1 - rules.level)
    return errors | {id: _verdict(finding, rules) for id, finding in found.items()}


def _verdict(finding: Finding, rules: Rules) -> Verdict:
    gate, estimate = finding.gate, finding.estimate
    results = [check.result(gate.on_inconclusive) for check in finding.checks]
    values = [case.value for case in finding.cases.values()]
    missed = finding.figure is not None and not finding.figure.met
    against = _against(finding) if missed else []
    return Verdict(
        gate=gate,
        passed="fail" not in results,
        estimate=estimate,
        # The neutral rate can be higher or lower than in both worst cases.
        bounds=(min(estimate.value, *values), max(estimate.value, *values))
        if values
        else (estimate.value, estimate.value),
        answers=len(finding.records),
        invalid=sum(isinstance(r.judgement, Invalid) for r in finding.records)
        / len(finding.records),
        outcome=worst(check.outcome for check in finding.checks),
        warns="warn" in results and "fail" not in results,
        extremes=tuple((name, case.value) for name, case in finding.cases.items()),
        flips=_flips(finding, rules),
        need=_need(finding, rules),
        missed_by=_missed_by(finding) if missed else None,
        counted_against=len(against),
        offenders=tuple(
            offender(finding.metric, answers, _too_low(finding))
            for answers in against[: rules.offenders]
        ),
        comparison=finding.comparison,
        skipped="max_drop and max_rise were not checked: no --baseline for this benchmark"
        if gate.has_margins and not finding.change
        else "",
        level=rules.level,
        views=finding.views,
        use=finding.used.use if finding.used else "raw",
    )


def _flips(finding: Finding, rules: Rules) -> bool:
    """Whether the test would end differently in one of the worst cases."""
    if finding.figure is None:
        return False
    gate = finding.gate
    ends = [finding.figure] + [
        check_figure(gate, finding.metric, case, rules, finding.used)
        for case in finding.cases.values()
    ]
    return len({end.result(gate.on_inconclusive) == "fail" for end in ends}) > 1


def _need(finding: Finding, rules: Rules) -> Need | None:
    """What would decide the figure or, where that is decided, the change."""
    estimate, check, compared = finding.estimate, finding.figure, finding.comparison
    if check and check.outcome is Outcome.INCONCLUSIVE:
        bound = _spanned(finding.limits, estimate.lower, estimate.upper, estimate.value)
        if finding.is_share:
            return Need(sample_size.for_share(estimate.value, bound, rules.level))
        end = estimate.upper if bound > estimate.value else estimate.lower
        if finding.used:
            return Need(sample_size.for_mean(estimate.value, end, bound, estimate.n))
        return Need(
            sample_size.for_mean(estimate.value, end, bound, estimate.n),
            sample_size.samples_for_mean(estimate, bound, _samples(finding), rules.level),
        )
    if compared and finding.change and finding.change.outcome is Outcome.INCONCLUSIVE:
        change = compared.change
        bound = _spanned(finding.margins, compared.lower, compared.upper, change.value)
        end = compared.upper if bound > change.value else compared.lower
        return Need(sample_size.for_mean(change.value, end, bound, change.n))
    return None


def _spanned(limits: AllowedRange, lower: float, upper: float, value: float) -> float:
    """The bound that an interval spans, the nearest where it spans both."""
    ends = [end for end in (limits.low, limits.high) if end is not None and lower <= end <= upper]
    return min(ends, key=lambda end: abs(end - value)) if ends else limits.nearest(value)


def _samples(finding: Finding) -> list[list[float]]:
    """The scores of the single answers, prompt by prompt."""
    score = finding.metric.score
    grouped = by_prompt(finding.records).values()
    scored = [[score([record]) for record in answers] for answers in grouped]
    return [found for s in scored if (found := [x for x in s if x is not None])]


def _too_low(finding: Finding) -> bool:
    return not AllowedRange(finding.gate.minimum).holds(finding.estimate.value)


def _bound(finding: Finding) -> float:
    """The bound that a figure missed."""
    bound = finding.gate.minimum if _too_low(finding) else finding.gate.maximum
    assert bound is not None, "a figure beyond a bound has that bound"
    return bound


def _missed_by(finding: Finding) -> int | None:
    if not finding.is_share:
        return None
    n, bound = finding.estimate.n, _bound(finding)
    have = round(finding.estimate.value * n)
    if _too_low(finding):
        return math.ceil(bound * n - 1e-9) - have
    return have - math.floor(bound * n + 1e-9)


def _against(finding: Finding) -> list[list[Record]]:
    """The prompts on the wrong side, worst first, each with its answers."""
    metric, low, bound = finding.metric, _too_low(finding), _bound(finding)
    found = metric.scores(finding.records).items()
    scores = {id: score for id, score in found if counts_against(metric, score, bound, low)}
    grouped = by_prompt(finding.records)
    return [grouped[id] for id in sorted(scores, key=scores.__getitem__, reverse=not low)]
