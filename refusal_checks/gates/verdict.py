"""The decision on a gate, as a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Comparison, Flip
from refusal_checks.gates.gate import Gate, Outcome, Use
from refusal_checks.gates.offenders import Offender, answers_of
from refusal_checks.gates.rates import EstimateVariant
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import Need


@dataclass(frozen=True)
class Verdict:
    """The decision on a gate.

    Attributes:
        passed: the gate's test passes.
        waived: it does not, and the gate's waiver held on the day of the run.
        bounds: the figure with every invalid answer counted as one extreme, then as the other; the
            lower first.
        answers: how many were sampled.
        invalid: share of answers without a verdict.
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
        skipped: what could not be checked, and why; empty if all could.
        views: the figure in all the ways it is known; empty if the judge's is the only one.
        use: the view that decides.
        misread: which of its answers the judge misreads, and what to do; mostly empty.
        kind: of the benchmark: safety, sanity or another.
        groups: of a gate on every group, the verdicts on the groups, worst first and without texts;
            the figures above are the first one's.
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
    views: tuple[EstimateVariant, ...] = ()
    use: Use = "raw"
    worst: tuple[float, float] | None = None
    open_by_invalid: bool = False
    kind: str = ""
    misread: str = ""
    waived: bool = False
    groups: tuple[Verdict, ...] = ()

    @property
    def fails(self) -> bool:
        return not self.passed and not self.waived

    @property
    def is_idle(self) -> bool:
        return bool(self.skipped) and not self.gate.has_bounds

    @property
    def missing(self) -> str:
        """What an inconclusive gate lacks besides prompts; empty if nothing."""
        if self.outcome is not Outcome.INCONCLUSIVE:
            return ""
        if self.comparison and self.comparison.missing and self.gate.has_margins:
            return f"its change is not known: {self.comparison.missing}"
        return self.caution

    @property
    def caution(self) -> str:
        """What to do about a figure that rests on too little evidence of its own; mostly empty."""
        own = (view.caution for view in self.views if view.use == self.use)
        return self.misread or next(own, "")

    @property
    def shown(self) -> tuple[Offender, ...]:
        """The answers that reports show: the offenders, then those of prompts that moved."""
        moved = (
            (*self.comparison.fell, *self.comparison.rose) if self.comparison else ()
        )
        return (*self.offenders, *(flip.now for flip in moved))

    def with_rationales(self, records: Sequence[Record]) -> Verdict:
        """The same verdict with the reasons that judges have given since for what it shows."""
        judged = answers_of(self.shown, records)

        def explained(each: Offender) -> Offender:
            found = judged.get((each.id, each.answer))
            if found is None or found.judgement.verdict != each.verdict:
                return each
            by = found.judgement
            return replace(each, category=by.category, rationale=by.rationale)

        return self.showing(
            explained, lambda flip: replace(flip, now=explained(flip.now))
        )

    def showing(
        self, told: Callable[[Offender], Offender], moved: Callable[[Flip], Flip]
    ) -> Verdict:
        """The same verdict with the prompts that it shows changed."""
        compared = self.comparison
        if compared:
            fell, rose = (
                tuple(map(moved, each)) for each in (compared.fell, compared.rose)
            )
            compared = replace(compared, fell=fell, rose=rose)
        return replace(
            self, offenders=tuple(map(told, self.offenders)), comparison=compared
        )
