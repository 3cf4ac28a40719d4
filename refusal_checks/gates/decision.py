"""Estimate x gate -> verdict: the outcome, how sure it is, and the prompts behind it."""

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
from refusal_checks.gates.comparison import Comparison, Earlier
from refusal_checks.gates.estimates import Estimator, GateFigures, Rules
from refusal_checks.gates.gate import AllowedRange, Gate, Outcome
from refusal_checks.gates.offenders import MissedBound, Offender, offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.gates.wording import looser_bounds
from refusal_checks.metrics import by_prompt
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate, is_wilson
from refusal_checks.metrics.statistics.sample_size import Need


def decide_all(
    gates: Sequence[Gate],
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None = None,
    estimator: Estimator | None = None,
) -> dict[str, Verdict | EvaluationError]:
    """Verdicts on the gates of one benchmark by gate id, or the errors that prevented them."""
    figures: dict[tuple[str, str | None], GateFigures] = {}  # by gate id and group
    errors: dict[str, Verdict | EvaluationError] = {}
    for gate in gates:
        how, estimate = rules, estimator
        if gate.is_on_every_group:  # which no early stop watches
            how, estimate = replace(rules, watched=False), None
        for part in gate.of_each_group([record.prompt for record in records]):
            try:
                found = estimates.find(part, records, how, earlier, estimate)
                figures[gate.id, part.group] = found
            except EvaluationError as fault:
                named = f"{part.group_kind} {part.group}: " if part is not gate else ""
                errors.setdefault(gate.id, EvaluationError(f"{named}{fault}"))
    if rules.multiple_testing == "holm":
        figures = estimates.with_holm(figures, 1 - rules.level)
    decided: dict[str, list[Verdict]] = {}
    for (name, _), each in figures.items():
        decided.setdefault(name, []).append(_verdict(each, rules))
    verdicts: dict[str, Verdict | EvaluationError] = {}
    for gate in gates:
        if gate.id in errors:
            continue
        if gate.is_on_every_group:
            verdicts[gate.id] = _of_every_group(gate, decided[gate.id], earlier, rules)
        else:
            (verdicts[gate.id],) = decided[gate.id]
    return errors | verdicts


def _of_every_group(
    gate: Gate, groups: Sequence[Verdict], earlier: Earlier | None, rules: Rules
) -> Verdict:
    """One verdict on all groups, at least one: it passes if every group does."""
    ranked = sorted(groups, key=_badness)
    worst, failed = ranked[0], [each for each in ranked if not each.passed]
    # One of each failed group in turn, the worst groups first.
    turns = zip_longest(*(each.offenders for each in failed or [worst]))
    offenders = [prompt for turn in turns for prompt in turn if prompt is not None]
    compared = worst.comparison
    if compared and earlier:
        bounds = earlier.scores.bounds.get(gate.id, {})
        compared = replace(compared, looser=tuple(looser_bounds(gate, bounds)))
    passed = not failed
    return replace(
        worst,
        gate=gate,
        passed=passed,
        waived=not passed and gate.waiver is not None and gate.waiver.holds(rules.day),
        warns=passed and any(each.warns for each in ranked),
        outcome=estimates.worst(each.outcome for each in ranked),
        flips=all(group.flips for group in failed)
        if failed
        else any(g.flips for g in ranked),
        counted_against=sum(each.counted_against for each in failed or [worst]),
        offenders=tuple(offenders[: rules.offenders]),
        comparison=compared,
        groups=tuple(map(_without_texts, ranked)),
    )


def _badness(verdict: Verdict) -> tuple[bool, int, bool, float]:
    """Sorts verdicts of one kind: failed and breached ones first, then those nearest to a bound."""
    gate, compared = verdict.gate, verdict.comparison
    rooms = [gate.limits.room(verdict.estimate.value)]
    if compared and gate.has_margins:
        rooms.append(gate.change_limits.room(compared.change.value))
    order = [Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS]
    return verdict.passed, order.index(verdict.outcome), not verdict.warns, min(rooms)


def _without_texts(verdict: Verdict) -> Verdict:
    compared = verdict.comparison
    if compared:
        compared = replace(compared, fell=(), rose=())
    return replace(verdict, offenders=(), comparison=compared)


def _verdict(figures: GateFigures, rules: Rules) -> Verdict:
    gate, rate, estimate = figures.gate, figures.rate, figures.estimate
    records, ends = rate.records, (estimate, *figures.cases.values())
    results = [check.result(gate.on_inconclusive) for check in figures.checks]
    passed = "fail" not in results
    missed, missed_by = MissedBound.of(gate, estimate.value), None
    wrong: list[str] = []
    offenders: tuple[Offender, ...] = ()
    if missed and figures.figure and not figures.figure.met:
        scores, grouped = rate.metric.scores(records), by_prompt(records)
        wrong = [name for name, score in scores.items() if missed.counts(score)]
        # Worst first; of equally bad ones one of each group, so that all kinds of them are seen.
        alike = Counter[tuple[float, str]]()
        order, sign = {}, 1 if missed.is_minimum else -1
        for name in wrong:
            groups = grouped[name][0].prompt.groups
            kind = (scores[name], next(iter(groups.values()), ""))
            alike[kind] += 1
            order[name] = (sign * scores[name], alike[kind])
        offenders = tuple(
            offender(rate.metric, grouped[name], missed.is_minimum)
            for name in sorted(wrong, key=order.__getitem__)[: rules.offenders]
        )
        if rate.is_share:  # how many prompts would have to change sides
            have, wanted = round(estimate.value * estimate.n), missed.bound * estimate.n
            missed_by = math.ceil(sign * (wanted - have) - 1e-9)
    skipped = ""
    if gate.has_margins and not figures.change:
        then = "anchor" if gate.is_total else "--baseline"
        names = " and ".join(gate.margin_names)
        skipped = f"{names} were not checked: no {then} for this benchmark"
    open_by_invalid = _is_open_by_invalid(figures)
    return Verdict(
        gate=gate,
        passed=passed,
        waived=not passed and gate.waiver is not None and gate.waiver.holds(rules.day),
        estimate=estimate,
        # The neutral rate can lie above or below both worst cases.
        bounds=(min(end.value for end in ends), max(end.value for end in ends)),
        answers=len(records),
        invalid=sum(isinstance(record.judgement, Invalid) for record in records)
        / len(records),
        outcome=estimates.worst(check.outcome for check in figures.checks),
        warns="warn" in results and passed,
        extremes=tuple((name, case.value) for name, case in figures.cases.items()),
        flips=_flips(figures),
        need=None if open_by_invalid else _need(figures, rules),
        missed_by=missed_by,
        counted_against=len(wrong),
        offenders=offenders,
        comparison=figures.comparison,
        skipped=skipped,
        level=rules.level,
        views=rate.views,
        use=rate.used.use if rate.used else "raw",
        worst=(min(end.lower for end in ends), max(end.upper for end in ends))
        if gate.has_bounds and figures.cases
        else None,
        open_by_invalid=open_by_invalid,
        kind=str(records[0].prompt.kind or ""),
        misread=rate.misread,
    )


def _flips(figures: GateFigures) -> bool:
    """True if the test would end differently in one of the worst cases."""
    gate, change, compared = figures.gate, figures.change, figures.comparison
    cases = (figures.estimate, *figures.cases.values()) if figures.figure else ()
    changes = [change] if change else []
    if (
        change
        and compared
        and not compared.missing
        and _passes(gate.change_limits, compared)
    ):
        changes.append(replace(change, outcome=Outcome.PASS))
    return any(
        len({check.result(gate.on_inconclusive) == "fail" for check in checks}) > 1
        for checks in ([estimates.check_figure(gate, case) for case in cases], changes)
    )


def _is_open_by_invalid(figures: GateFigures) -> bool:
    """True if figure and change would both pass if invalid answers were left out."""
    if (
        estimates.worst(check.outcome for check in figures.checks)
        is not Outcome.INCONCLUSIVE
    ):
        return False
    gate, compared = figures.gate, figures.comparison
    if figures.rate.is_doubtful or (figures.change and compared and compared.missing):
        return False
    if figures.figure and not _passes(gate.limits, figures.estimate):
        return False
    return not (figures.change and compared) or _passes(gate.change_limits, compared)


def _passes(limits: AllowedRange, bounds: Estimate | Comparison) -> bool:
    """True if bounds of a figure or change without invalid answers lie within limits."""
    return limits.outcome(bounds.lower, bounds.upper) is Outcome.PASS


def _need(figures: GateFigures, rules: Rules) -> Need | None:
    estimate, check, compared = figures.estimate, figures.figure, figures.comparison
    limits, rate, metric = figures.gate.limits, figures.rate, figures.rate.metric
    if (
        check
        and check.outcome is Outcome.INCONCLUSIVE
        and not _passes(limits, estimate)
    ):
        bound = limits.nearest(estimate)
        if rate.used:
            return rate.used.need
        if rate.is_share and is_wilson(estimate, rules.level):
            return Need(sample_size.for_share(estimate.value, bound, rules.level))
        answers = (
            [score for record in each if (score := metric.score([record])) is not None]
            for each in by_prompt(rate.records).values()
        )
        samples, ends = (
            [each for each in answers if each],
            (metric.lowest, metric.highest),
        )
        more = sample_size.samples_for_mean(estimate, bound, samples, rules.level, ends)
        quantile = (1 + rules.level) / 2
        return Need(sample_size.for_mean(estimate, bound, quantile, ends), more)
    if compared and compared.missing:
        return None
    if compared and figures.change and figures.change.outcome is Outcome.INCONCLUSIVE:
        change = compared.one_sided
        limits = figures.gate.change_limits
        bound = limits.nearest(change)
        ends = (-metric.span, metric.span)
        return Need(sample_size.for_mean(change, bound, rules.level, ends))
    return None
