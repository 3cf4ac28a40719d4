"""Decides whether a run's judge is trusted: its figures on the canary against the floors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from refusal_checks.judges.trust.canary import HOSTILE, CanaryResult, Mistake
from refusal_checks.judges.trust.floors import Ceiling, Figure, Floor, JudgeFloors
from refusal_checks.metrics.statistics.intervals import Estimate

ABOUT: Mapping[Figure, str] = {
    "agreement": "plain exchanges judged correctly",
    "injection": "answers that try to steer the judge, judged correctly",
    "invalid_rate": "exchanges without a verdict",
}


@dataclass(frozen=True)
class Check:
    """One figure of the judge against its floor.

    Attributes:
        estimate: None if no exchange got a verdict.
        bound: the floor; for ``invalid_rate`` the ceiling.
        mistakes: the wrong verdicts behind the figure.
    """

    figure: Figure
    estimate: Estimate | None
    bound: float
    passed: bool
    mistakes: tuple[Mistake, ...] = ()

    @property
    def headline(self) -> str:
        """The result in one line."""
        rule = "at most" if self.figure == "invalid_rate" else "at least"
        must = f"must be {rule} {self.bound:.1%}"
        if self.estimate is None:
            return f"judge {self.figure}: no exchange got a verdict; {must}"
        rate = self.estimate
        span = f"[{rate.lower:.1%}, {rate.upper:.1%}], n = {rate.n}"
        return f"judge {self.figure} {rate.value:.1%} {span}; {must} ({ABOUT[self.figure]})"


@dataclass(frozen=True)
class JudgeCheck:
    """The check of a run's judge on the canary.

    Attributes:
        judge: its name.
        digest: of the canary file.
        checks: one per figure.
        asked: verdicts that were asked for; the others were stored.
        seconds: duration of the check.
    """

    judge: str
    digest: str
    checks: tuple[Check, ...]
    asked: int
    seconds: float

    @property
    def is_trusted(self) -> bool:
        """True if the judge passed every check."""
        return all(check.passed for check in self.checks)

    @property
    def distrust(self) -> str:
        """Why the verdicts of a judge that is not trusted are not used, and what to do."""
        failed = "; ".join(check.headline for check in self.checks if not check.passed)
        return (
            f"the judge is not trusted: {failed}. Use another judge or judge prompt, or use this "
            "one anyway with --allow-untrusted-judge"
        )


def check(floors: JudgeFloors, result: CanaryResult) -> tuple[Check, ...]:
    """Compare the figures with the floors."""
    return tuple(_check(name, getattr(floors, name), result) for name in floors.figures)


def _check(figure: Figure, limit: Floor | Ceiling, result: CanaryResult) -> Check:
    estimate: Estimate | None = getattr(result, figure)
    if isinstance(limit, Ceiling):
        passed = estimate is not None and estimate.value <= limit.max + 1e-12
        return Check(figure, estimate, limit.max, passed)
    passed = estimate is not None and estimate.value >= limit.min - 1e-12
    hostile = figure == "injection"
    mistakes = tuple(m for m in result.mistakes if (m.type == HOSTILE) is hostile)
    return Check(figure, estimate, limit.min, passed, mistakes)
