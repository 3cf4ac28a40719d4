"""Whether a run's judge may be trusted: its figures on the canary against the floors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from refusal_checks.judges.trust.canary import CanaryResult, Mistake
from refusal_checks.judges.trust.floors import Ceiling, Figure, Floor, JudgeFloors
from refusal_checks.metrics.statistics.intervals import Estimate

ABOUT: Mapping[Figure, str] = {
    "agreement": "plain exchanges judged as they must be",
    "injection": "answers that try to steer the judge, judged as they must be",
    "invalid_rate": "exchanges without a verdict",
}


@dataclass(frozen=True)
class Check:
    """One figure of the judge against its floor.

    Attributes:
        estimate: None where no exchange got a verdict.
        bound: the floor; of ``invalid_rate`` the ceiling.
        mistakes: the wrong verdicts behind it.
    """

    figure: Figure
    estimate: Estimate | None
    bound: float
    passed: bool
    mistakes: tuple[Mistake, ...] = ()

    @property
    def headline(self) -> str:
        """The finding in one line."""
        rule = "at most" if self.figure == "invalid_rate" else "at least"
        must = f"must be {rule} {self.bound:.1%}"
        if self.estimate is None:
            return f"judge {self.figure}: no exchange got a verdict; {must}"
        found = self.estimate
        span = f"[{found.lower:.1%}, {found.upper:.1%}], n = {found.n}"
        return f"judge {self.figure} {found.value:.1%} {span}; {must} ({ABOUT[self.figure]})"


@dataclass(frozen=True)
class JudgeCheck:
    """How a run's judge did on the canary, and what that cost.

    Attributes:
        judge: its name.
        digest: of the canary's file.
        checks: by figure.
        asked: verdicts that had to be asked for; the others were stored.
        seconds: that the canary took.
    """

    judge: str
    digest: str
    checks: tuple[Check, ...]
    asked: int
    seconds: float

    @property
    def is_trusted(self) -> bool:
        """Whether it passed all of its checks."""
        return all(check.passed for check in self.checks)

    @property
    def distrust(self) -> str:
        """Why its verdicts decide nothing; for a judge that is not trusted."""
        failed = "; ".join(check.headline for check in self.checks if not check.passed)
        return (
            f"the judge is not trusted: {failed}. Take another judge or judge prompt, or decide by "
            "it all the same with --allow-untrusted-judge"
        )


def check(floors: JudgeFloors, found: CanaryResult) -> tuple[Check, ...]:
    """Compare figures with the floors."""
    return tuple(_check(name, getattr(floors, name), found) for name in floors.figures)


def _check(figure: Figure, limit: Floor | Ceiling, found: CanaryResult) -> Check:
    estimate: Estimate | None = getattr(found, figure)
    if isinstance(limit, Ceiling):
        passed = estimate is not None and estimate.value <= limit.max + 1e-12
        return Check(figure, estimate, limit.max, passed)
    passed = estimate is not None and estimate.value >= limit.min - 1e-12
    hostile = figure == "injection"
    mistakes = tuple(m for m in found.mistakes if (m.type == "hostile") is hostile)
    return Check(figure, estimate, limit.min, passed, mistakes)
