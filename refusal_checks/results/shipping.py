"""May it ship? The answer that exit code, terminal, summary, HTML and GitHub give alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from refusal_checks.core.text import count
from refusal_checks.gates.checks import Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
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

    @property
    def may_ship(self) -> bool:
        """True if the session's exit code may be 0."""
        return self.answer in ("yes", "doubt")

    @property
    def line(self) -> str:
        """Answer and reasons in one line."""
        return f"{self.headline}: {'; '.join(self.reasons)}"


def shipping(summary: RunSummary) -> Shipping:
    """The answer that all gates of a run give together."""
    reasons = sorted(_reasons(summary), key=lambda reason: list(HEADLINES).index(reason[0]))
    return Shipping(reasons[0][0], tuple(text for _, text in reasons))


def together(summaries: Iterable[RunSummary]) -> str:
    """The weightiest of several runs' answers, in a word or two."""
    return HEADLINES[min((shipping(each).answer for each in summaries), key=list(HEADLINES).index)]


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
        gates = summary.manifest.gates
        yield (
            "open",
            f"no gate was {'selected' if gates.known and not gates.selected else 'decided'}",
        )
    if summary.judge and not summary.judge.is_trusted:
        yield "open", "the judge failed its check"
    yield from (("doubt", reason) for reason in _doubts(summary, verdicts))
    passed = len(verdicts) - len(failed)
    if passed:
        yield "yes", f"{passed} of {count(total, 'gate')} passed"


def _doubts(summary: RunSummary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Reservations about a run whose gates all passed, from what it says of the candidate.

    Invalid answers and judges that disagree are no figures of the candidate: they have gates.
    """
    own = [each for each in verdicts if METRICS[each.gate.metric].group != "judging"]
    open_ones = sum(each.passed and each.outcome is Outcome.INCONCLUSIVE for each in own)
    if open_ones:
        yield f"{count(open_ones, 'gate')} passed although inconclusive at the confidence level"
    if any(each.flips for each in own):
        yield "the invalid answers alone decide a gate"
    skipped = sum(bool(each.skipped) for each in summary.verdicts.values())
    if skipped:
        yield f"max_drop and max_rise of {count(skipped, 'gate')} were not checked: no --baseline"
    gates = summary.manifest.gates
    left_out = gates.known - gates.selected
    if left_out:
        yield f"{left_out} of {count(gates.known, 'gate')} in the threshold files were not run"
