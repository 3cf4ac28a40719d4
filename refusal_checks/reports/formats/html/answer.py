"""The answer to the report's question: may it ship?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from refusal_checks.gates.checks import Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.results.summary import RunSummary

Answer = Literal["yes", "doubt", "open", "no"]

HEADLINES: dict[Answer, str] = {
    "yes": "Yes",
    "doubt": "Yes, with reservations",
    "open": "Not decided",
    "no": "No",
}


@dataclass(frozen=True)
class Shipping:
    """Whether a candidate may ship by its gates, and why.

    Attributes:
        answer: ``no`` where a gate failed, ``open`` where one could not be evaluated or the judge
            is not trusted, ``doubt`` where all passed but something must be known, else ``yes``.
        reasons: in order of weight, at least one.
    """

    answer: Answer
    reasons: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The answer in a word or two."""
        return HEADLINES[self.answer]


def shipping(summary: RunSummary) -> Shipping:
    """What a run's gates say together."""
    found = list(_reasons(summary))
    order: list[Answer] = ["no", "open", "doubt", "yes"]
    worst = min((answer for answer, _ in found), key=order.index)
    return Shipping(worst, tuple(reason for _, reason in sorted(found, key=_weight)))


def _weight(found: tuple[Answer, str]) -> int:
    return ("no", "open", "doubt", "yes").index(found[0])


def _reasons(summary: RunSummary) -> Iterator[tuple[Answer, str]]:
    verdicts = [verdict for verdict in summary.verdicts.values() if not verdict.is_idle]
    failed = [verdict for verdict in verdicts if not verdict.passed]
    total = len(summary.verdicts) + len(summary.errors)
    if failed:
        yield "no", f"{len(failed)} of {_count(total, 'gate')} failed"
    if summary.errors:
        yield "open", f"{_count(len(summary.errors), 'gate')} could not be evaluated"
    elif summary.failure:
        yield "open", "the evaluation ended early"
    if not verdicts and not summary.errors:
        yield "open", "no gate was decided"
    if summary.judge and not summary.judge.is_trusted:
        yield "open", "the judge is not trusted by its own check"
    yield from (("doubt", reason) for reason in _doubts(summary, verdicts))
    passed = len(verdicts) - len(failed)
    if passed:
        yield "yes", f"{passed} of {_count(total, 'gate')} passed"


def _doubts(summary: RunSummary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What must be known of a run whose gates all passed."""
    open_ones = sum(v.passed and v.outcome is Outcome.INCONCLUSIVE for v in verdicts)
    if open_ones:
        yield f"{_count(open_ones, 'gate')} passed without being decided at the confidence level"
    if any(verdict.flips for verdict in verdicts):
        yield "invalid answers alone decide a gate"
    gates = summary.manifest.gates
    left_out = gates.known - gates.selected
    if left_out:
        yield f"{left_out} of {_count(gates.known, 'gate')} of the threshold files were left out"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
