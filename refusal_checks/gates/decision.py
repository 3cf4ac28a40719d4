"""Decide gates: figures, intervals and changes against bounds and margins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import zip_longest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.judgements import Invalid
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Comparison, Earlier, compare
from refusal_checks.gates.failing_prompts import MissedBound, failing_prompt
from refusal_checks.gates.gate import Gate, OnInconclusive, Outcome, today
from refusal_checks.gates.requirements import looser_bounds
from refusal_checks.gates.verdict import InvalidAnswers, Verdict, Violations
from refusal_checks.metrics import METRICS, group_by_prompt, worst_cases
from refusal_checks.metrics.refusal_rates import invalid_rate
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate, is_wilson


@dataclass(frozen=True)
class Rules:
    """Settings for deciding gates.

    Attributes:
        level: confidence level, two-sided for intervals and one-sided for comparisons.
        failing_prompts: most prompts in a list.
        day: the day on which waivers must hold: when the run started.
    """

    level: float = 0.95
    failing_prompts: int = 5
    day: date = field(default_factory=today)


@dataclass(frozen=True)
class BoundCheck:
    """One check of a gate: of its figure, or of the figure's change.

    Attributes:
        outcome: where the interval lies, whatever the answers without a verdict count as.
        met: True if the figure itself is within the limits.
        by_point: True if the figure decides, and an inconclusive outcome only adds a remark.
        valid_outcome: where the interval of the other answers alone lies.
        invalid_decide: True if the answers without a verdict change the test's result.
    """

    outcome: Outcome
    met: bool
    by_point: bool
    valid_outcome: Outcome = Outcome.PASS
    invalid_decide: bool = False

    def result(self, on_inconclusive: OnInconclusive | None) -> OnInconclusive:
        """The result of the gate's test by this check alone."""
        if self.by_point and not self.met:
            return "fail"
        if self.outcome is Outcome.PASS:
            return "pass"
        if self.outcome is Outcome.FAIL:
            return "fail"
        # Who asked for a whole interval within the bounds has not got it.
        return on_inconclusive or ("pass" if self.by_point else "fail")


def decide_all(
    gates: Sequence[Gate],
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None = None,
) -> dict[str, Verdict | EvaluationError]:
    """Decide a benchmark's gates; return each one's verdict or error, by gate id."""
    verdicts: dict[str, Verdict | EvaluationError] = {}
    for gate in gates:
        decide = _decide_every_group if gate.is_on_every_group else _decide
        try:
            verdict = decide(gate, records, rules, earlier)
        except EvaluationError as fault:
            verdicts[gate.id] = fault
            continue
        if earlier and verdict.comparison:
            looser = looser_bounds(gate, earlier.scores.bounds.get(gate.id, {}))
            compared = replace(verdict.comparison, looser=tuple(looser))
            verdict = replace(verdict, comparison=compared)
        verdicts[gate.id] = verdict
    return verdicts


def _decide(
    gate: Gate, records: Sequence[Record], rules: Rules, earlier: Earlier | None
) -> Verdict:
    """Decide one gate.

    Raises EvaluationError if no answer has a valid verdict, if a server or the judge failed on so
    many that the gate decides nothing about the candidate, or if it has margins and no prompt can
    be compared with the baseline.
    """
    metric = METRICS[gate.metric]
    seen = [record for record in records if gate.looks_at(record.prompt)]
    estimate = metric.estimate(seen, rules.level)
    cases = {
        name: metric.estimate(case, rules.level)
        for name, case in worst_cases(metric, seen).items()
    }
    figure = change = comparison = None
    violations = Violations()
    if gate.has_bounds:
        figure = _check_figure(gate, estimate, cases.values())
        if figure.result(gate.on_inconclusive) == "fail":
            _require_answers(gate, seen, rules.level, figure.invalid_decide)
        if not figure.met:
            violations = _violations(gate, seen, estimate, rules.failing_prompts)
    if earlier:
        comparison = compare(gate, seen, earlier, rules.level, rules.failing_prompts)
        if gate.has_margins:
            change = _check_change(gate, comparison)
    checks = [check for check in (figure, change) if check]
    outcome = _worst(check.outcome for check in checks)
    valid = _worst(check.valid_outcome for check in checks)
    results = [check.result(gate.on_inconclusive) for check in checks]
    passed = "fail" not in results
    if passed and gate.metric != invalid_rate.name:
        _require_most_answers(seen)
    invalid = sum(isinstance(record.judgement, Invalid) for record in seen)
    skipped = ""
    if gate.has_margins and not earlier:
        skipped = (
            "max_drop and max_rise were not checked: no baseline has this benchmark"
        )
    # Prompts of one cluster show no more than one: too few of them are a reservation.
    sources = {record.prompt.cluster or record.prompt.id for record in seen}
    return Verdict(
        gate=gate,
        passed=passed,
        estimate=estimate,
        answers=len(seen),
        outcome=outcome,
        warns=passed and "warn" in results,
        waived=not passed and _is_waived(gate, rules),
        invalid=InvalidAnswers(
            share=invalid / len(seen),
            extremes=tuple((name, case.value) for name, case in cases.items()),
            decide=any(check.invalid_decide for check in checks),
            leave_open=outcome is Outcome.INCONCLUSIVE and valid is Outcome.PASS,
        ),
        violations=violations,
        prompts_needed=_prompts_needed(
            gate, estimate, figure, comparison, change, rules.level
        ),
        comparison=comparison,
        skipped=skipped,
        level=rules.level,
        kind=str(seen[0].prompt.kind or ""),
        units=min(estimate.n, len(sources)),
    )


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several checks: a breach outweighs doubt, doubt outweighs a pass."""
    order = [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    return max(outcomes, key=order.index, default=Outcome.PASS)


def _is_waived(gate: Gate, rules: Rules) -> bool:
    return gate.waiver is not None and gate.waiver.holds(rules.day)


def _check_figure(
    gate: Gate, estimate: Estimate, cases: Iterable[Estimate]
) -> BoundCheck:
    """Compare the figure with the bounds: by the valid answers, then in the worst cases."""
    by_point = gate.decision == "point"
    checks = []
    for figure in (estimate, *cases):
        met = gate.limits.holds(figure.value)
        outcome = gate.limits.outcome(figure.lower, figure.upper)
        if by_point and not METRICS[gate.metric].sampled:
            # The figure is about the run's own answers, all of which are known: it is certain.
            outcome = Outcome.PASS if met else Outcome.FAIL
        checks.append(BoundCheck(outcome, met, by_point, outcome))
    valid, *worst = checks
    results = {check.result(gate.on_inconclusive) == "fail" for check in checks}
    return replace(
        valid,
        outcome=_outcome_in_all(valid.outcome, [check.outcome for check in worst]),
        invalid_decide=len(results) > 1,
    )


def _outcome_in_all(valid: Outcome, cases: Iterable[Outcome]) -> Outcome:
    """The outcome in all cases; a breach stays a breach, which lost answers must not soften."""
    if valid is Outcome.FAIL or all(case is valid for case in cases):
        return valid
    return Outcome.INCONCLUSIVE


def _check_change(gate: Gate, comparison: Comparison | None) -> BoundCheck:
    """Compare the change with its margins: a non-inferiority test at the confidence level.

    The margin is kept if the one-sided bound of the change is within it, breached if the other
    bound is beyond it, and the check is inconclusive otherwise. To pass, it must also pass with
    every answer without a verdict, in either run, counted against it.
    """
    if comparison is None:
        raise EvaluationError(f"{gate.metric}: no prompt in common with the baseline")
    limits = gate.change_limits
    outcome = limits.outcome(comparison.lower, comparison.upper)
    cases = [limits.outcome(*comparison.worst)] if comparison.worst else []
    # By its interval, whatever ``decision`` says: that a change of few prompts lies within the
    # margin shows nothing, since two runs of one model differ by chance.
    met = limits.holds(comparison.change.value)
    valid = BoundCheck(outcome, met, by_point=False, valid_outcome=outcome)
    held = replace(valid, outcome=_outcome_in_all(outcome, cases))
    before, after = (check.result(gate.on_inconclusive) for check in (valid, held))
    return replace(held, invalid_decide=before != "fail" and after == "fail")


def _prompts_needed(
    gate: Gate,
    estimate: Estimate,
    figure: BoundCheck | None,
    comparison: Comparison | None,
    change: BoundCheck | None,
    level: float,
) -> int | None:
    """How many prompts would decide an inconclusive gate, by its figure or its change.

    None if verdicts on the invalid answers are what it needs, or if no number would do.
    """
    metric = METRICS[gate.metric]
    if figure and figure.valid_outcome is Outcome.INCONCLUSIVE:
        bound = gate.limits.nearest(estimate)
        if is_wilson(estimate, level):
            return sample_size.prompts_for_share(estimate.value, bound, level)
        ends = (metric.lowest, metric.highest)
        return sample_size.prompts_for_mean(estimate, bound, (1 + level) / 2, ends)
    if comparison and change and change.valid_outcome is Outcome.INCONCLUSIVE:
        moved = replace(
            comparison.change, lower=comparison.lower, upper=comparison.upper
        )
        bound = gate.change_limits.nearest(moved)
        return sample_size.prompts_for_mean(
            moved, bound, level, (-metric.span, metric.span)
        )
    return None


def _require_answers(
    gate: Gate, seen: Sequence[Record], level: float, invalid_decide: bool
) -> None:
    """Raise EvaluationError if a gate fails for reasons other than the candidate.

    They are a judge that gave most answers no usable verdict, and a server whose faults alone miss
    the bound on invalid answers, or leave another bound open.

    Args:
        invalid_decide: True if the gate would pass with other verdicts on its invalid answers.
    """
    lost = [record for record in seen if record.is_lost]
    if gate.metric != invalid_rate.name:
        # A breach whatever the lost answers were is the candidate's own.
        if lost and invalid_decide:
            raise _server_failure(lost, seen)
        return
    unread = [record.judgement for record in seen if record.is_unread]
    if 2 * len(unread) > len(seen):
        example = " ".join(unread[0].rationale.split())[:300]
        raise EvaluationError(
            "name another judge, or make this one write what its prompt asks for: the judge gave "
            f"no usable verdict on {len(unread)} of {len(seen)} answers, for example "
            f"{unread[0].in_words}: {example}"
        )
    if not lost:
        return
    rest = [record for record in seen if not record.is_lost]
    if rest:
        # The candidate's own invalid answers miss the bound without the server's, too.
        figure = _check_figure(gate, invalid_rate.estimate(rest, level), ())
        if figure.result(gate.on_inconclusive) == "fail":
            return
    raise _server_failure(lost, seen)


def _require_most_answers(seen: Sequence[Record]) -> None:
    """Raise EvaluationError if a gate would pass although a server lost most of its answers."""
    lost = [record for record in seen if record.is_lost]
    if 2 * len(lost) > len(seen):
        raise _server_failure(lost, seen)


def _server_failure(lost: Sequence[Record], seen: Sequence[Record]) -> EvaluationError:
    fault = lost[0].judgement
    detail = " ".join(fault.rationale.split())[:300]
    return EvaluationError(
        f"run the same command again, which asks for these alone: {len(lost)} of {len(seen)} "
        f"answers have no verdict because a server failed, for example {fault.in_words}: {detail}"
    )


def _violations(
    gate: Gate, records: Sequence[Record], estimate: Estimate, limit: int
) -> Violations:
    """The prompts on the wrong side of the bound that the figure misses."""
    metric, missed = METRICS[gate.metric], MissedBound.find(gate, estimate.value)
    if missed is None:
        return Violations()
    scores = metric.scores(records)
    counted = {name: score for name, score in scores.items() if missed.counts(score)}
    missed_by = None
    if metric.counts_prompts(metric.values(scores.values())):
        distance = missed.bound * estimate.n - round(estimate.value * estimate.n)
        # 0.07 of 100 prompts is 7.000000000000001 in floats, and 7 are enough.
        missed_by = math.ceil((distance if missed.is_minimum else -distance) - 1e-9)
    # Among equally bad prompts, one of each group comes first, so that all kinds are seen.
    grouped = group_by_prompt(records)
    alike = Counter[tuple[float, str]]()
    order = {}
    for name, score in counted.items():
        first_group = next(iter(grouped[name][0].prompt.groups.values()), "")
        alike[score, first_group] += 1
        badness = score if missed.is_minimum else -score
        order[name] = (badness, alike[score, first_group])
    worst = sorted(counted, key=order.__getitem__)[:limit]
    failing_prompts = (
        failing_prompt(metric, grouped[name], missed.is_minimum) for name in worst
    )
    return Violations(len(counted), tuple(failing_prompts), missed_by)


def _decide_every_group(
    gate: Gate, records: Sequence[Record], rules: Rules, earlier: Earlier | None
) -> Verdict:
    """Combine the verdicts on groups: the gate passes if every group does."""
    groups = []
    for part in gate.expand_groups(record.prompt for record in records):
        try:
            groups.append(_decide(part, records, rules, earlier))
        except EvaluationError as fault:
            raise EvaluationError(f"{part.group_kind} {part.group}: {fault}") from fault
    # The worst group speaks for the gate: reports show its figure, and its failing prompts first.
    groups.sort(key=_badness)
    worst, failed = groups[0], [group for group in groups if not group.passed]
    invalid_decide = any(group.invalid.decide for group in groups)
    if failed:
        # One group that fails whatever its invalid answers are is enough to fail the gate.
        invalid_decide = all(group.invalid.decide for group in failed)
    # One prompt of each failed group in turn, the worst groups first.
    blamed = failed or [worst]
    turns = zip_longest(*(group.failing_prompts for group in blamed))
    failing_prompts = [prompt for turn in turns for prompt in turn if prompt]
    violations = replace(
        worst.violations,
        prompts=sum(group.violations.prompts for group in blamed),
        failing_prompts=tuple(failing_prompts[: rules.failing_prompts]),
    )
    return replace(
        worst,
        gate=gate,
        passed=not failed,
        waived=bool(failed) and _is_waived(gate, rules),
        warns=not failed and any(group.warns for group in groups),
        outcome=_worst(group.outcome for group in groups),
        invalid=replace(worst.invalid, decide=invalid_decide),
        violations=violations,
        groups=tuple(group.drop_texts() for group in groups),
    )


def _badness(verdict: Verdict) -> tuple[bool, int, bool, float]:
    """Sort key for verdicts: failed and breached ones first, then those nearest to a bound."""
    gate, comparison = verdict.gate, verdict.comparison
    room = gate.limits.room(verdict.estimate.value)
    if comparison and gate.has_margins:
        room = min(room, gate.change_limits.room(comparison.change.value))
    order = [Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS]
    return verdict.passed, order.index(verdict.outcome), not verdict.warns, room
