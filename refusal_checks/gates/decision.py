"""From a gate's figures to its verdict: outcome, certainty, and the prompts behind it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates import estimates
from refusal_checks.gates.bounds import looser_bounds
from refusal_checks.gates.comparison import Comparison, Earlier
from refusal_checks.gates.estimate_set import EstimateSet
from refusal_checks.gates.estimates import BoundCheck, GateFigures, Rules
from refusal_checks.gates.gate import AllowedRange, Gate, Outcome
from refusal_checks.gates.offenders import MissedBound, Offender, offender
from refusal_checks.gates.verdict import CountedAgainst, InvalidAnswers, Verdict
from refusal_checks.metrics import by_prompt
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate, is_wilson
from refusal_checks.metrics.statistics.sample_size import Need


def decide_all(
    gates: Sequence[Gate],
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None = None,
) -> dict[str, Verdict | EvaluationError]:
    """Decide the gates of one benchmark: by gate id, the verdict or the error that prevented it."""
    figures: dict[tuple[str, str | None], GateFigures] = {}  # by gate id and group
    errors: dict[str, EvaluationError] = {}
    prompts = [record.prompt for record in records]
    for gate in gates:
        for part in gate.of_each_group(prompts):
            try:
                figures[gate.id, part.group] = estimates.figures_of(
                    part, records, rules, earlier
                )
            except EvaluationError as fault:
                where = f"{part.group_kind} {part.group}: " if part is not gate else ""
                errors.setdefault(gate.id, EvaluationError(f"{where}{fault}"))

    by_gate: dict[str, list[Verdict]] = {}
    for (gate_id, _), gate_figures in figures.items():
        by_gate.setdefault(gate_id, []).append(_verdict(gate_figures, rules))
    verdicts: dict[str, Verdict | EvaluationError] = dict(errors)
    for gate in gates:
        if gate.id in errors:
            continue
        if gate.is_on_every_group:
            verdicts[gate.id] = _of_every_group(gate, by_gate[gate.id], earlier, rules)
        else:
            (verdicts[gate.id],) = by_gate[gate.id]
    return verdicts


def _of_every_group(
    gate: Gate, groups: Sequence[Verdict], earlier: Earlier | None, rules: Rules
) -> Verdict:
    """Combine verdicts on one or more groups: the gate passes if every group does."""
    ranked = sorted(groups, key=_badness)
    worst = ranked[0]
    failed = [group for group in ranked if not group.passed]
    passed = not failed
    # One of each failed group in turn, the worst groups first.
    blamed = failed or [worst]
    turns = zip_longest(*(group.offenders for group in blamed))
    offenders = [prompt for turn in turns for prompt in turn if prompt is not None]
    against = replace(
        worst.against,
        prompts=sum(group.against.prompts for group in blamed),
        offenders=tuple(offenders[: rules.offenders]),
    )
    if failed:
        invalid_decide = all(group.invalid.decide for group in failed)
    else:
        invalid_decide = any(group.invalid.decide for group in ranked)
    comparison = worst.comparison
    if comparison and earlier:
        bounds = earlier.scores.bounds.get(gate.id, {})
        comparison = replace(comparison, looser=tuple(looser_bounds(gate, bounds)))
    return replace(
        worst,
        gate=gate,
        passed=passed,
        waived=not passed and _is_waived(gate, rules),
        warns=passed and any(group.warns for group in ranked),
        outcome=estimates.worst(group.outcome for group in ranked),
        invalid=replace(worst.invalid, decide=invalid_decide),
        against=against,
        comparison=comparison,
        groups=tuple(group.without_texts() for group in ranked),
    )


def _badness(verdict: Verdict) -> tuple[bool, int, bool, float]:
    """Sort key for verdicts: failed and breached ones first, then those nearest to a bound."""
    gate, comparison = verdict.gate, verdict.comparison
    room = gate.limits.room(verdict.estimate.value)
    if comparison and gate.has_margins:
        room = min(room, gate.change_limits.room(comparison.change.value))
    order = [Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS]
    return verdict.passed, order.index(verdict.outcome), not verdict.warns, room


def _is_waived(gate: Gate, rules: Rules) -> bool:
    return gate.waiver is not None and gate.waiver.holds(rules.day)


def _verdict(figures: GateFigures, rules: Rules) -> Verdict:
    gate, rate = figures.gate, figures.rate
    results = [check.result(gate.on_inconclusive) for check in figures.checks]
    passed = "fail" not in results
    invalid = _invalid_answers(figures)
    sources = {record.prompt.cluster or record.prompt.id for record in rate.records}
    need = None
    if not invalid.leave_open:  # or verdicts are what it needs
        need = _need(figures, rules)
    skipped = ""
    if gate.has_margins and not figures.change:
        skipped = (
            "max_drop and max_rise were not checked: no baseline has this benchmark"
        )
    return Verdict(
        gate=gate,
        passed=passed,
        estimate=figures.estimate,
        answers=len(rate.records),
        outcome=estimates.worst(check.outcome for check in figures.checks),
        warns=passed and "warn" in results,
        waived=not passed and _is_waived(gate, rules),
        invalid=invalid,
        against=_counted_against(figures, rules.offenders),
        need=need,
        comparison=figures.comparison,
        skipped=skipped,
        level=rules.level,
        kind=str(rate.records[0].prompt.kind or ""),
        units=min(figures.estimate.n, len(sources)),
    )


def _invalid_answers(figures: GateFigures) -> InvalidAnswers:
    records = figures.rate.records
    invalid = sum(isinstance(record.judgement, Invalid) for record in records)
    worst = None
    if figures.gate.has_bounds and figures.cases:
        intervals = [figures.estimate, *figures.cases.values()]
        worst = min(i.lower for i in intervals), max(i.upper for i in intervals)
    return InvalidAnswers(
        share=invalid / len(records),
        extremes=tuple((name, case.value) for name, case in figures.cases.items()),
        worst=worst,
        decide=_invalid_answers_decide(figures),
        leave_open=_invalid_answers_leave_open(figures),
    )


def _counted_against(figures: GateFigures, limit: int) -> CountedAgainst:
    gate, rate, estimate = figures.gate, figures.rate, figures.estimate
    missed = MissedBound.of(gate, estimate.value)
    if missed is None or figures.figure is None or figures.figure.met:
        return CountedAgainst()
    scores = rate.metric.scores(rate.records)
    counted = {name: score for name, score in scores.items() if missed.counts(score)}
    missed_by = None
    if rate.is_share:  # how many prompts would have to change sides
        counted_now = round(estimate.value * estimate.n)
        distance = missed.bound * estimate.n - counted_now
        if not missed.is_minimum:
            distance = -distance
        missed_by = math.ceil(distance - 1e-9)
    offenders = _worst_offenders(rate, counted, missed.is_minimum, limit)
    return CountedAgainst(len(counted), offenders, missed_by)


def _worst_offenders(
    rate: EstimateSet, scores: dict[str, float], lowest: bool, limit: int
) -> tuple[Offender, ...]:
    """Select prompts with the lowest, or the highest, of these scores.

    Among equally bad prompts, one of each group comes first, so that all kinds are seen.
    """
    grouped = by_prompt(rate.records)
    alike = Counter[tuple[float, str]]()
    order = {}
    for name, score in scores.items():
        groups = grouped[name][0].prompt.groups
        first_group = next(iter(groups.values()), "")
        alike[score, first_group] += 1
        order[name] = (score if lowest else -score, alike[score, first_group])
    worst = sorted(scores, key=order.__getitem__)[:limit]
    return tuple(offender(rate.metric, grouped[name], lowest) for name in worst)


def _invalid_answers_decide(figures: GateFigures) -> bool:
    """True if a worst case would change the test's result."""
    gate, change, comparison = figures.gate, figures.change, figures.comparison

    def differ(checks: Sequence[BoundCheck]) -> bool:
        fails = {check.result(gate.on_inconclusive) == "fail" for check in checks}
        return len(fails) > 1

    if figures.figure:
        cases = [figures.estimate, *figures.cases.values()]
        if differ([estimates.check_figure(gate, case) for case in cases]):
            return True
    if change is None or comparison is None:
        return False
    if not _passes(gate.change_limits, comparison):
        return False
    return differ([change, replace(change, outcome=Outcome.PASS)])


def _invalid_answers_leave_open(figures: GateFigures) -> bool:
    """True if figure and change would both pass without the invalid answers."""
    gate, comparison = figures.gate, figures.comparison
    outcome = estimates.worst(check.outcome for check in figures.checks)
    if outcome is not Outcome.INCONCLUSIVE:
        return False
    if figures.figure and not _passes(gate.limits, figures.estimate):
        return False
    if figures.change and comparison:
        return _passes(gate.change_limits, comparison)
    return True


def _passes(limits: AllowedRange, bounds: Estimate | Comparison) -> bool:
    """True if the bounds of a figure or change, without invalid answers, lie within limits."""
    return limits.outcome(bounds.lower, bounds.upper) is Outcome.PASS


def _need(figures: GateFigures, rules: Rules) -> Need | None:
    """What would decide an inconclusive gate, by its figure or else by its change."""
    gate, comparison = figures.gate, figures.comparison
    if _is_open(figures.figure) and not _passes(gate.limits, figures.estimate):
        return _need_of_figure(figures, rules)
    if comparison is None or not _is_open(figures.change):
        return None
    span = figures.rate.metric.span
    change = comparison.one_sided
    bound = gate.change_limits.nearest(change)
    prompts = sample_size.for_mean(change, bound, rules.level, (-span, span))
    return Need(prompts)


def _is_open(check: BoundCheck | None) -> bool:
    return check is not None and check.outcome is Outcome.INCONCLUSIVE


def _need_of_figure(figures: GateFigures, rules: Rules) -> Need | None:
    estimate, rate, metric = figures.estimate, figures.rate, figures.rate.metric
    bound = figures.gate.limits.nearest(estimate)
    if rate.is_share and is_wilson(estimate, rules.level):
        return Need(sample_size.for_share(estimate.value, bound, rules.level))
    samples = []
    for answers in by_prompt(rate.records).values():
        scores = [metric.score([record]) for record in answers]
        valid = [score for score in scores if score is not None]
        if valid:
            samples.append(valid)
    ends = (metric.lowest, metric.highest)
    more = sample_size.samples_for_mean(estimate, bound, samples, rules.level, ends)
    quantile = (1 + rules.level) / 2
    return Need(sample_size.for_mean(estimate, bound, quantile, ends), more)
