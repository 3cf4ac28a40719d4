"""The decision on a gate, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from refusal_checks.gates.comparison import Comparison, Flip
from refusal_checks.gates.failing_prompts import FailingPrompt
from refusal_checks.gates.gate import Gate, Outcome
from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class InvalidAnswers:
    """The effect of answers without a verdict on a gate.

    Attributes:
        share: their share of all answers, in [0, 1].
        extremes: the figure with all of them counted as one verdict and then as the other; each
            with the verdict's name.
        decide: True if the test's result depends on them.
        leave_open: True if the gate is inconclusive because of them alone.
    """

    share: float = 0.0
    extremes: tuple[tuple[str, float], ...] = ()
    decide: bool = False
    leave_open: bool = False


@dataclass(frozen=True)
class Violations:
    """The prompts that count against a gate that misses a bound.

    Attributes:
        prompts: how many there are.
        failing_prompts: some of them, worst first.
        missed_by: for a share, how many prompts would have to change for a pass; else None.
    """

    prompts: int = 0
    failing_prompts: tuple[FailingPrompt, ...] = ()
    missed_by: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The decision on a gate; a judge's verdict on an answer is a ``Judgement``.

    Attributes:
        passed: True if the gate's test passes.
        waived: True if it fails under a waiver that held on the day of the run.
        warns: True if it passes with a warning, because the gate is inconclusive.
        answers: number of sampled answers.
        invalid: the effect of answers without a verdict.
        violations: the prompts that count against the gate; empty if it is within its bounds.
        prompts_needed: how many prompts would decide an inconclusive gate, if its figure stayed.
        skipped: what could not be checked, and why; usually empty.
        level: confidence level of the intervals.
        kind: the kind of benchmark: safety, sanity or another.
        units: number of independent prompts in the figure: those of one cluster count as one.
        groups: for a gate on every group, the verdicts on the groups, worst first, without texts.
            The attributes above are those of the first.
    """

    gate: Gate
    passed: bool
    estimate: Estimate
    answers: int
    outcome: Outcome = Outcome.PASS
    warns: bool = False
    waived: bool = False
    invalid: InvalidAnswers = field(default_factory=InvalidAnswers)
    violations: Violations = field(default_factory=Violations)
    prompts_needed: int | None = None
    comparison: Comparison | None = None
    skipped: str = ""
    level: float = 0.95
    kind: str = ""
    units: int = 0
    groups: tuple[Verdict, ...] = ()

    @property
    def fails(self) -> bool:
        return not self.passed and not self.waived

    @property
    def is_idle(self) -> bool:
        return bool(self.skipped) and not self.gate.has_bounds

    @property
    def failing_prompts(self) -> tuple[FailingPrompt, ...]:
        """Some of the prompts that count against the gate, worst first."""
        return self.violations.failing_prompts

    @property
    def bounds(self) -> tuple[float, float]:
        """The figure with all invalid answers counted as one extreme, then as the other.

        The lower comes first. The figure itself is included, since a neutral rate can lie outside
        both.
        """
        figures = [self.estimate.value]
        figures += [figure for _, figure in self.invalid.extremes]
        return min(figures), max(figures)

    def map_texts(
        self,
        failing_prompt: Callable[[FailingPrompt], FailingPrompt],
        flip: Callable[[Flip], Flip],
    ) -> Verdict:
        """Return the verdict with two functions applied to its shown prompts and flips."""
        failing_prompts = tuple(map(failing_prompt, self.failing_prompts))
        comparison = self.comparison
        if comparison:
            comparison = replace(
                comparison,
                fell=tuple(map(flip, comparison.fell)),
                rose=tuple(map(flip, comparison.rose)),
            )
        violations = replace(self.violations, failing_prompts=failing_prompts)
        return replace(self, violations=violations, comparison=comparison)

    def drop_texts(self) -> Verdict:
        """Return the verdict without the prompts and answers that it shows."""
        comparison = self.comparison
        if comparison:
            comparison = replace(comparison, fell=(), rose=())
        violations = replace(self.violations, failing_prompts=())
        return replace(self, violations=violations, comparison=comparison)
