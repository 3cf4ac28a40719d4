"""The answer to the report's question: may it ship?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from refusal_checks.gates.checks import Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports.words import count
from refusal_checks.results.summary import RunSummary

Answer = Literal["yes", "doubt", "open", "no"]

HEADLINES: dict[Answer, str] = {
    "no": "No",
    "open": "Not decided",
    "doubt": "Yes, with reservations",
    "yes": "Yes",
}
"""The weightiest answer first."""


@dataclass(frozen=True)
class Shipping:
    """Whether a candidate may ship by its gates, and why.

    Attributes:
        answer: ``no`` if a gate failed, ``open`` if one could not be evaluated or the judge is not
            trusted, ``doubt`` if all passed with reservations, else ``yes``.
        reasons: the weightiest first, at least one.
    """

    answer: Answer
    reasons: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The answer in a word or two."""
        return HEADLINES[self.answer]


def shipping(summary: RunSummary) -> Shipping:
    """The answer that all gates of a run give together."""
    reasons = sorted(_reasons(summary), key=lambda reason: list(HEADLINES).index(reason[0]))
    return Shipping(reasons[0][0], tuple(text for _, text in reasons))


def _reasons(summary: RunSummary) -> Iterator[tuple[Answer, str]]:
    verdicts = [verdict for verdict in summary.verdicts.values() if not verdict.is_idle]
    failed = [verdict for verdict in verdicts if not verdict.passed]
    total = len(summary.verdicts) + len(summary.errors)
    if failed:
        yield "no", f"{len(failed)} of {count(total, 'gate')} failed"
    if summary.errors:
        yield "open", f"{count(len(summary.errors), 'gate')} could not be evaluated"
    elif summary.failure:
        yield "open", "the evaluation ended early"
    if not verdicts and not summary.errors:
        yield "open", "no gate was decided"
    if summary.judge and not summary.judge.is_trusted:
        yield "open", "the judge failed its check"
    yield from (("doubt", reason) for reason in _doubts(summary, verdicts))
    passed = len(verdicts) - len(failed)
    if passed:
        yield "yes", f"{passed} of {count(total, 'gate')} passed"


def _doubts(summary: RunSummary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Reservations about a run whose gates all passed."""
    open_ones = sum(v.passed and v.outcome is Outcome.INCONCLUSIVE for v in verdicts)
    if open_ones:
        yield f"{count(open_ones, 'gate')} passed although inconclusive at the confidence level"
    if any(verdict.flips for verdict in verdicts):
        yield "the invalid answers alone decide a gate"
    gates = summary.manifest.gates
    left_out = gates.known - gates.selected
    if left_out:
        yield f"{left_out} of {count(gates.known, 'gate')} in the threshold files were not run"
