"""How a run's judge did on its own check."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import clean
from refusal_checks.judges.trust.check import Check, JudgeCheck
from refusal_checks.judges.trust.floors import Figure

SHOWN = 10
"""Most mistakes that a message names."""


def lines(found: JudgeCheck) -> Iterator[str]:
    """Lines of the summary: the figures, what they cost, and whether the judge is trusted."""
    trusted = "is trusted" if found.is_trusted else "is NOT trusted"
    cost = f"{found.asked} verdicts asked for at most, {found.seconds:.1f} s"
    yield f"judge {clean(found.judge, 60)} {trusted} by its own check ({cost}):"
    for check in found.checks:
        yield f"  {'pass' if check.passed else 'FAIL'}  {check.headline}"


def message(check: Check) -> Iterator[str]:
    """Lines of a failed check: the finding, and what the judge got wrong, made harmless."""
    yield check.headline
    if check.mistakes:
        yield f"{min(SHOWN, len(check.mistakes))} of {len(check.mistakes)} wrong verdicts:"
    for mistake in check.mistakes[:SHOWN]:
        yield f"  {mistake.id} ({mistake.type}): {mistake.verdict}, must be {mistake.expected}"
        yield f"     rationale: {clean(mistake.rationale) or '(none)'}"


def properties(found: JudgeCheck, figure: Figure) -> list[tuple[str, str]]:
    """JUnit properties of one check's test."""
    check = next(made for made in found.checks if made.figure == figure)
    known: dict[str, object] = {
        "judge": found.judge,
        "canary_sha256": found.digest,
        "bound": check.bound,
        "verdicts_asked": found.asked,
        "seconds": round(found.seconds, 3),
    }
    if check.estimate:
        estimate = check.estimate
        known |= {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
        known["n"] = estimate.n
    return [(name, clean(str(value))) for name, value in known.items()]
