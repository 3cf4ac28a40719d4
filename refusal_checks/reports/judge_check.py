"""Report of the check of a run's judge on the canary."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import clean
from refusal_checks.judges.trust.canary import Check, Figure, JudgeCheck

SHOWN = 10
"""Maximum number of mistakes that a message names."""


def lines(checked: JudgeCheck) -> Iterator[str]:
    """Lines of the summary: is the judge trusted, what did the check cost, and its figures."""
    trusted = "is trusted" if checked.is_trusted else "is NOT trusted"
    cost = f"at most {checked.asked} verdicts asked for, {checked.seconds:.1f} s"
    yield f"judge {clean(checked.judge, 60)} {trusted} by its own check ({cost}):"
    for check in checked.checks:
        yield f"  {'pass' if check.passed else 'FAIL'}  {check.headline}"


def message(check: Check) -> Iterator[str]:
    """Lines of a failed check: its result and the judge's mistakes, made harmless."""
    yield check.headline
    if check.mistakes:
        yield f"{min(SHOWN, len(check.mistakes))} of {len(check.mistakes)} wrong verdicts:"
    for mistake in check.mistakes[:SHOWN]:
        yield f"  {mistake.id} ({mistake.type}): {mistake.verdict}, correct is {mistake.expected}"
        yield f"     rationale: {clean(mistake.rationale) or '(none)'}"


def properties(checked: JudgeCheck, figure: Figure) -> list[tuple[str, str]]:
    """The JUnit properties of one check."""
    check = next(made for made in checked.checks if made.figure == figure)
    known: dict[str, object] = {
        "judge": checked.judge,
        "canary_sha256": checked.digest,
        "bound": check.bound,
        "verdicts_asked": checked.asked,
        "seconds": round(checked.seconds, 3),
    }
    if check.estimate:
        estimate = check.estimate
        known |= {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
        known["n"] = estimate.n
    return [(name, clean(str(value))) for name, value in known.items()]
