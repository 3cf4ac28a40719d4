"""Estimate x gate -> verdict: the outcome, how sure it is, and the prompts behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates.compare import Comparison, Earlier, Offender, counts_against, offender
from refusal_checks.gates.estimates import (
    Estimator,
    GateFigures,
    Rules,
    check_figure,
    find,
    select,
    with_holm,
    worst,
)
from refusal_checks.gates.gate import AllowedRange, Gate, Outcome, Use
from refusal_checks.gates.rates import Noise, RateView, noise
from refusal_checks.metrics import by_prompt
from refusal_checks.metrics.statistics import sample_size
from refusal_checks.metrics.statistics.intervals import Estimate, is_wilson
from refusal_checks.metrics.statistics.sample_size import Need


@dataclass(frozen=True)
class Verdict:
    """The decision on a gate.

    Attributes:
        passed: the figure is as it must be; the gate's test passes.
        waived: it is not, and the gate's waiver held on the day of the run.
        bounds: the figure with every invalid answer counted as one extreme, then as the other; the
            lower first.
        answers: how many were sampled.
        invalid: share of answers without a verdict.
        outcome: of the gate's bounds at the confidence level.
        warns: the test passes with a warning, because the gate is inconclusive.
        extremes: the same two figures by the verdict that invalid answers are counted as.
        worst: the interval that holds however invalid answers are counted; None without any, or
            without bounds on the figure.
        flips: the invalid answers alone decide the test.
        open_by_invalid: the gate is inconclusive only because answers are invalid.
        need: what would decide an inconclusive gate.
        missed_by: for a share, prompts that would have to change sides; None for other figures
            and for a figure within the bounds.
        counted_against: how many prompts count against the gate.
        offenders: some of these, worst first; empty for a figure within the bounds.
        comparison: with the baseline, if there is one.
        skipped: what could not be checked, and why; empty if all could.
        level: confidence level of all of this.
        views: the figure in all the ways it is known; empty if the judge's is the only one.
        use: the view that decides.
        noise: of the judge, if it judged more than once.
        kind: of the benchmark: safety, sanity or another; empty where the run did not record it.
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
    views: tuple[RateView, ...] = ()
    use: Use = "raw"
    noise: Noise | None = None
    worst: tuple[float, float] | None = None
    open_by_invalid: bool = False
    kind: str = ""
    waived: bool = False

    @property
    def fails(self) -> bool:
        """True if the gate stops a release: it has not passed and is not waived."""
        return not self.passed and not self.waived

    @property
    def is_idle(self) -> bool:
        """True if nothing of the gate could be checked."""
        return bool(self.skipped) and not self.gate.has_bounds

    @property
    def shown(self) -> tuple[Offender, ...]:
        """The answers that reports show: the offenders, then those of prompts that moved."""
        moved = (*self.comparison.fell, *self.comparison.rose) if self.comparison else ()
        return (*self.offenders, *(flip.now for flip in moved))

    def with_rationales(self, records: Sequence[Record]) -> Verdict:
        """The same verdict with the reasons that judges have given since for the answers it shows.

        Args:
            records: those it was decided on, some with more of a rationale or a category.
        """
        judged = {
            (record.prompt.id, record.completion.text): record.judgement
            for record in reversed(records)
            if record.completion and not isinstance(record.judgement, Invalid)
        }

        def explained(each: Offender) -> Offender:
            found = judged.get((each.id, each.answer))
            if found is None or found.verdict != each.verdict:
                return each
            return replace(each, category=found.category, rationale=found.rationale)

        compared = self.comparison and self.comparison.with_answers(explained)
        return replace(self, offenders=tuple(map(explained, self.offenders)), comparison=compared)


def decide_all(
    gates: Sequence[Gate],
    records: Sequence[Record],
    rules: Rules,
    earlier: Earlier | None = None,
    estimator: Estimator | None = None,
    repeats: Sequence[Sequence[Record]] = (),
) -> dict[str, Verdict | EvaluationError]:
    """Verdicts on the gates of one benchmark by gate id, or the errors that prevented them.

    Args:
        records: all records of the benchmark.
        earlier: the run that changes are measured against.
        estimator: for benchmarks of which only some prompts were evaluated.
        repeats: the same answers with the judges' repeated verdicts.
    """
    decided: dict[str, GateFigures] = {}
    errors: dict[str, Verdict | EvaluationError] = {}
    for gate in gates:
        try:
            decided[gate.id] = find(gate, records, rules, earlier, estimator)
        except EvaluationError as fault:
            errors[gate.id] = fault
    if rules.multiple_testing == "holm":
        decided = with_holm(decided, 1 - rules.level)
    return errors | {name: _verdict(each, rules, repeats) for name, each in decided.items()}


def _verdict(figures: GateFigures, rules: Rules, repeats: Sequence[Sequence[Record]]) -> Verdict:
    gate, estimate, records = figures.gate, figures.estimate, figures.records
    results = [check.result(gate.on_inconclusive) for check in figures.checks]
    # The neutral rate can lie above or below both worst cases.
    values = [estimate.value, *(case.value for case in figures.cases.values())]
    too_low = not AllowedRange(gate.minimum).holds(estimate.value)
    bound = gate.minimum if too_low else gate.maximum
    missed = None if bound is None or not figures.figure or figures.figure.met else bound
    against = [] if missed is None else _against(figures, missed, too_low)
    open_by_invalid = _is_open_by_invalid(figures)
    passed = "fail" not in results
    sets = (records, *(select(gate, each) for each in repeats))
    return Verdict(
        gate=gate,
        passed=passed,
        waived=not passed and gate.waiver is not None and gate.waiver.holds(rules.day),
        estimate=estimate,
        bounds=(min(values), max(values)),
        answers=len(records),
        invalid=sum(isinstance(record.judgement, Invalid) for record in records) / len(records),
        outcome=worst(check.outcome for check in figures.checks),
        warns="warn" in results and "fail" not in results,
        extremes=tuple((name, case.value) for name, case in figures.cases.items()),
        flips=_flips(figures, rules),
        need=None if open_by_invalid else _need(figures, rules),
        missed_by=None if missed is None else _missed_by(figures, missed, too_low),
        counted_against=len(against),
        offenders=tuple(
            offender(figures.metric, answers, too_low) for answers in against[: rules.offenders]
        ),
        comparison=figures.comparison,
        skipped="max_drop and max_rise were not checked: no --baseline for this benchmark"
        if gate.has_margins and not figures.change
        else "",
        level=rules.level,
        views=figures.views,
        use=figures.used.use if figures.used else "raw",
        worst=_worst(figures) if gate.has_bounds else None,
        open_by_invalid=open_by_invalid,
        kind=str(records[0].prompt.kind or ""),
        noise=noise(figures.metric, sets, estimate, rules.level) if repeats else None,
    )


def _worst(figures: GateFigures) -> tuple[float, float] | None:
    """The interval over all ways in which invalid answers may be counted."""
    if not figures.cases:
        return None
    every = (figures.estimate, *figures.cases.values())
    return min(each.lower for each in every), max(each.upper for each in every)


def _flips(figures: GateFigures, rules: Rules) -> bool:
    """True if the test would end differently in one of the worst cases."""
    gate, change, compared = figures.gate, figures.change, figures.comparison
    figure_checks = [
        check_figure(gate, figures.metric, case, rules, figures.used)
        for case in (figures.estimate, *figures.cases.values())
        if figures.figure
    ]
    change_checks = [change] if change else []
    if change and compared and _passes(gate.change_limits, compared):
        change_checks.append(replace(change, outcome=Outcome.PASS))
    results = (
        {check.result(gate.on_inconclusive) == "fail" for check in checks}
        for checks in (figure_checks, change_checks)
    )
    return any(len(ends) > 1 for ends in results)


def _is_open_by_invalid(figures: GateFigures) -> bool:
    """True if figure and change would both pass if invalid answers were left out."""
    if worst(check.outcome for check in figures.checks) is not Outcome.INCONCLUSIVE:
        return False
    gate, compared = figures.gate, figures.comparison
    figure_passes = figures.figure is None or _passes(gate.limits, figures.estimate)
    if not figures.change or not compared:
        return figure_passes
    return figure_passes and _passes(gate.change_limits, compared)


def _passes(limits: AllowedRange, bounds: Estimate | Comparison) -> bool:
    """True if bounds of a figure or change without invalid answers lie within limits."""
    return limits.outcome(bounds.lower, bounds.upper) is Outcome.PASS


def _need(figures: GateFigures, rules: Rules) -> Need | None:
    """What would decide the figure or, if that is decided, the change."""
    estimate, check, compared = figures.estimate, figures.figure, figures.comparison
    gate = figures.gate
    if check and check.outcome is Outcome.INCONCLUSIVE and not _passes(gate.limits, estimate):
        bound = gate.limits.spanned(estimate.lower, estimate.upper, estimate.value)
        if figures.used:
            return figures.used.need
        if figures.is_share and is_wilson(estimate, rules.level):
            return Need(sample_size.for_share(estimate.value, bound, rules.level))
        prompts = sample_size.for_mean(estimate, bound)
        samples = _samples(figures)
        ends = figures.metric.lowest, figures.metric.highest
        more = sample_size.samples_for_mean(estimate, bound, samples, rules.level, ends)
        return Need(prompts, more)
    if compared and figures.change and figures.change.outcome is Outcome.INCONCLUSIVE:
        change = Estimate(compared.change.value, compared.lower, compared.upper, compared.change.n)
        limits = gate.change_limits
        bound = limits.spanned(change.lower, change.upper, change.value)
        return Need(sample_size.for_mean(change, bound))
    return None


def _samples(figures: GateFigures) -> list[list[float]]:
    """The scores of the single answers, prompt by prompt; prompts without one are left out."""
    prompts = [
        [score for record in answers if (score := figures.metric.score([record])) is not None]
        for answers in by_prompt(figures.records).values()
    ]
    return [scores for scores in prompts if scores]


def _missed_by(figures: GateFigures, bound: float, too_low: bool) -> int | None:
    if not figures.is_share:
        return None
    n = figures.estimate.n
    have = round(figures.estimate.value * n)
    if too_low:
        return math.ceil(bound * n - 1e-9) - have
    return have - math.floor(bound * n + 1e-9)


def _against(figures: GateFigures, bound: float, too_low: bool) -> list[list[Record]]:
    """The prompts on the wrong side, worst first, each with its answers."""
    metric, grouped = figures.metric, by_prompt(figures.records)
    scores = metric.scores(figures.records)
    wrong = [name for name in scores if counts_against(metric, scores[name], bound, too_low)]
    return [grouped[name] for name in sorted(wrong, key=scores.__getitem__, reverse=not too_low)]
