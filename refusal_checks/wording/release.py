"""May it ship? One answer for exit code, terminal, summary, HTML and GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from refusal_checks.core.reservation_kinds import RESERVATION_KINDS
from refusal_checks.core.text import count, sanitize
from refusal_checks.gates.gate import WAIVER
from refusal_checks.gates.verdict import Verdict
from refusal_checks.results.reservations import Reservation, reservations
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording.gate_sentences import finding, sentence, worst_first

Answer = Literal["yes", "doubt", "waived", "unverified", "open", "no", "measured"]

HEADLINES: dict[Answer, str] = {
    "no": "No",
    "open": "Not decided",
    "unverified": "Not proven",
    "waived": "Yes, with waived gates",
    "doubt": "Yes, with reservations",
    "yes": "Yes",
    "measured": "Nothing was gated",
}
"""Answers, the most serious first."""

EXIT_CODES: dict[Answer, int] = {"no": 1, "open": 1, "unverified": 7}
"""Exit codes of gate runs by answer; 0 for the other answers. pytest itself uses 0 to 5."""

NAMED = 2
"""The most failed gates that one reason names."""


@dataclass(frozen=True)
class ReleaseDecision:
    """Whether a candidate may ship, and why.

    Attributes:
        answer: ``no`` if a gate failed; ``open`` if one could not be evaluated or the judge is not
            trusted; ``unverified`` if no gate failed, but the answer rests on something unproven
            that nobody accepted; ``waived`` if all failures are waived; ``doubt`` if
            all gates passed with other reservations; ``measured`` if the run has figures but no
            gates; else ``yes``.
        reasons: all reasons, at least one, the most important first.
        decisive: the reasons for this answer, at least one.
        reservations: the reasons against relying on a yes, the weightiest first.
        stored: how many answers come from the store, and from which dates; else empty.
    """

    answer: Answer
    reasons: tuple[str, ...]
    decisive: tuple[str, ...]
    reservations: tuple[Reservation, ...] = ()
    stored: str = ""

    @property
    def headline(self) -> str:
        return HEADLINES[self.answer]

    @property
    def may_ship(self) -> bool:
        return self.exit_code == 0 and self.answer != "measured"

    def __bool__(self) -> bool:
        """The same as ``may_ship``, so that ``assert result.decision`` asserts it."""
        return self.may_ship

    @property
    def exit_code(self) -> int:
        return EXIT_CODES.get(self.answer, 0)

    @property
    def line(self) -> str:
        why = "; ".join(self.decisive)
        stored = f" ({self.stored})" if self.stored else ""
        return f"{self.headline}: {why}{stored}"

    @property
    def question(self) -> str:
        """Question and answer, with each further reason in a line of its own."""
        answer, comma, more = self.headline.partition(",")
        why = ";\n".join(self.decisive)
        stored = f" ({self.stored})" if self.stored else ""
        said = f"May it ship? {answer.upper()}{comma}{more}: {why}{stored}"
        if self.answer == "unverified":
            ids = [found.id for found in self.reservations if found.weighs]
            others = f"; likewise {', '.join(ids[1:])}" if ids[1:] else ""
            said += f"\nor accept it: [accept] {ids[0]} = {WAIVER}{others}"
        return said


def release_decision(summary: RunSummary) -> ReleaseDecision:
    """Decide whether a run's candidate may ship, from everything in the run's summary."""
    order = list(HEADLINES)
    verdicts = [verdict for verdict in summary.verdicts.values() if not verdict.is_idle]
    reasons = [*_reasons(summary, verdicts)]
    found: list[Reservation] = []
    # Without gates nothing is claimed that could be relied on.
    if not _only_measures(summary):
        found = sorted(reservations(summary, verdicts), key=_weight)
    for reservation in found:
        supported: Answer = "unverified" if reservation.weighs else "doubt"
        reasons.append((supported, reservation.line))
    # A stable sort: reasons for the same answer stay in the order in which they were found.
    reasons.sort(key=lambda reason: order.index(reason[0]))
    answer = reasons[0][0]
    weighty = {answer}
    if answer == "no":  # a failed gate does not hide that others were not decided
        weighty.add("open")
    if answer == "unverified":  # what would be left after accepting it
        weighty.add("doubt")
    return ReleaseDecision(
        answer,
        reasons=tuple(text for _, text in reasons),
        decisive=tuple(text for weight, text in reasons if weight in weighty),
        reservations=tuple(found),
        stored=summary.execution.stored,
    )


def _weight(reservation: Reservation) -> tuple[int, bool]:
    """Sort key: reservations that nobody accepted, accepted ones, notes."""
    return RESERVATION_KINDS.index(reservation.kind), bool(reservation.accepted)


def summary_texts(summary: RunSummary) -> dict[str, Any]:
    """What ``summary.json`` says in words: the answer, and each gate in a sentence."""
    decision = release_decision(summary)
    return {
        "decision": {
            "answer": decision.answer,
            "headline": decision.headline,
            "reasons": list(decision.reasons),
            "sentence": decision.line,
            "reservations": [asdict(found) for found in decision.reservations],
        },
        "judge_means": summary.judge_means,
        "sentences": {
            gate: sentence(verdict) for gate, verdict in summary.verdicts.items()
        },
    }


def _reasons(
    summary: RunSummary, verdicts: list[Verdict]
) -> Iterator[tuple[Answer, str]]:
    """Yield reasons for and against shipping, each with the answer that it supports."""
    failed = [verdict for verdict in verdicts if verdict.fails]
    total = len(summary.verdicts) + len(summary.errors)
    if failed:
        named = ", ".join(finding(verdict) for verdict in worst_first(failed)[:NAMED])
        more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        yield "no", f"{len(failed)} of {count(total, 'gate')} failed: {named}{more}"
    for reason in _open_reasons(summary, verdicts):
        yield "open", reason
    for verdict in verdicts:
        waiver = verdict.gate.waiver
        if verdict.waived and waiver:
            text = f"{verdict.gate.id} failed but is waived {waiver.terms}"
            yield "waived", sanitize(f"{text}: {waiver.reason}", 300)
    passed = sum(verdict.passed for verdict in verdicts)
    if passed:
        share = f"{passed} of {count(total, 'gate')}"
        gates = summary.manifest.gates
        # "All" would read as all gates of the run file.
        if passed == total and gates.left_out:
            share = f"{total} of {count(gates.known, 'gate')} ran, and passed"
        elif passed == total:
            share = "the gate passed" if total == 1 else f"all {total} gates passed"
        else:
            share += " passed"
        yield "yes", f"{share}{_confirmation(summary)}"
    if _only_measures(summary):
        number = len(summary.benchmarks)
        were = "was" if number == 1 else "were"
        yield "measured", f"{count(number, 'benchmark')} {were} measured"


def _confirmation(summary: RunSummary) -> str:
    """Say how many refusals people confirmed; empty if nobody looked."""
    found = summary.confirmed
    if found is None:
        return ""
    of_drawn = f"{found.drawn} refusals"
    if found.confirmed < found.drawn:
        of_drawn = f"{found.confirmed} of {of_drawn}"
    return f", confirmed by people on {of_drawn}"


def _only_measures(summary: RunSummary) -> bool:
    """True if the run has figures, and nothing that could pass or fail."""
    gates = summary.manifest.gates.selected or summary.verdicts or summary.errors
    return bool(summary.benchmarks) and not gates


def _open_reasons(summary: RunSummary, verdicts: list[Verdict]) -> Iterator[str]:
    """Yield reasons why the run leaves something undecided."""
    for advice in summary.unusable:
        yield sanitize(advice, 400)
    if summary.errors:
        yield f"{count(len(summary.errors), 'gate')} could not be evaluated"
    elif summary.unfinished:
        judged = sum(benchmark.prompts for benchmark in summary.benchmarks.values())
        planned = sum(data.prompts for data in summary.manifest.data.values())
        yield f"the run is unfinished: {judged:,} of {planned:,} prompts are judged"
    elif summary.failure:
        yield "the evaluation ended early"
    # Failures that no verdict explains, for example of a worker, may have hidden a gate.
    if summary.unexplained:
        first, *others = summary.unexplained
        also = f" and {len(others)} more" if others else ""
        yield sanitize(f"{first}{also}", 300)
    if not verdicts and not summary.errors and not _only_measures(summary):
        gates = summary.manifest.gates
        how = "selected" if gates.known and not gates.selected else "decided"
        yield f"no gate was {how}"
    # This explains the gates above that could not be evaluated.
    if summary.judge and not summary.judge.is_trusted:
        failed = "; ".join(check.headline for check in summary.judge.failed)
        yield sanitize(f"the judge failed its check: {failed}", 500)
