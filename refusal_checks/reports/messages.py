"""Which prompts count against a gate, and the messages of gates and of the judge's check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from refusal_checks.core.records import Record
from refusal_checks.core.text import clean, count
from refusal_checks.gates.compare import Flip, Offender, counts_against
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import AllowedRange, Gate
from refusal_checks.judges.trust.canary import Check, JudgeCheck
from refusal_checks.metrics import METRICS
from refusal_checks.reports.explain import Topic, moved, remarks_on, select


class Standard(NamedTuple):
    """One of a gate's bounds: the figure must be at least it, or at most."""

    gate: Gate
    bound: float
    is_minimum: bool

    def is_missed_by(self, answers: Sequence[Record]) -> bool:
        """True if a prompt counts against the gate, by all of its records, at least one."""
        if not self.gate.looks_at(answers[0].prompt):
            return False
        metric = METRICS[self.gate.metric]
        score = metric.score(answers)
        return score is not None and counts_against(metric, score, self.bound, self.is_minimum)


def standard(verdict: Verdict) -> Standard | None:
    """The bound that the figure missed, or the only bound if it missed none.

    None if no prompt counts against the gate: it has two bounds and missed neither, or only bounds
    on the change.
    """
    gate, value = verdict.gate, verdict.estimate.value
    if gate.minimum is not None and not AllowedRange(gate.minimum).holds(value):
        return Standard(gate, gate.minimum, True)
    if gate.maximum is not None and not AllowedRange(None, gate.maximum).holds(value):
        return Standard(gate, gate.maximum, False)
    if len(gate.limits.ends) == 1:
        return Standard(gate, gate.limits.ends[0], gate.minimum is not None)
    return None


BRIEF = (
    Topic.SUMMARY,
    Topic.WAIVER,
    Topic.PROVENANCE,
    Topic.INVALID,
    Topic.INVALID_DECIDES,
    Topic.CHANGE,
)
"""What a terminal shows of a gate unless all is asked for."""


def message(verdict: Verdict) -> str:
    """Everything needed to understand a breached gate, with model output made harmless."""
    return "\n".join([*(each.text for each in remarks_on(verdict)), *_prompts(verdict, set())])


def brief_message(verdict: Verdict, shown: set[tuple[str, str]]) -> str:
    """What a terminal shows: no statistics, and no prompt that it has shown for another gate.

    Args:
        shown: benchmark and id of prompts that were shown; those that this message shows join it.
    """
    return "\n".join([*select(verdict, *BRIEF), *_prompts(verdict, shown)])


def _prompts(verdict: Verdict, shown: set[tuple[str, str]]) -> Iterator[str]:
    """The prompts that count against the gate, and those that moved; each of them once."""

    def unseen(ids: Iterable[str]) -> set[str]:
        """Those that were not shown; they are then."""
        new = {(verdict.gate.benchmark, each) for each in ids} - shown
        shown.update(new)
        return {each for _, each in new}

    flips = {flip.now.id: flip for moves in moved(verdict) for flip in moves.flips}
    new = unseen(each.id for each in verdict.offenders)
    offenders = [each for each in verdict.offenders if each.id in new]
    if verdict.offenders:
        total, rest = verdict.counted_against, ":" if offenders else ": shown above"
        counts = f"{count(total, 'prompt')} that {'counts' if total == 1 else 'count'}"
        number = len(offenders or verdict.offenders)
        yield f"worst {number} of {counts} against this gate{rest}"
    for number, offender in enumerate(offenders, 1):
        confidence = offender.confidence
        score = "" if confidence is None else f"  refusal confidence {confidence:+.2f}"
        yield from ("", _title(number, offender) + score)
        yield from (f"     {line}" for line in exchange(offender))
        if flip := flips.get(offender.id):
            yield f"     before:    {_before(flip)}"
    for moves in moved(verdict):
        new = unseen(flip.now.id for flip in moves.flips)
        moves = moves._replace(flips=[flip for flip in moves.flips if flip.now.id in new])
        if moves.flips:
            yield from ("", f"{moves.heading}:")
        for number, flip in enumerate(moves.flips, 1):
            scores = f"score {flip.before:+.2f} then, {flip.after:+.2f} now"
            yield from ("", f"{_title(number, flip.now)}  {scores}")
            yield f"     prompt:    {clean(flip.now.prompt)}"
            yield f"     then:      {_before(flip)}"
            yield f"     now:       {flip.now.verdict}: {clean(flip.now.answer) or '(none)'}"
            yield f"     rationale: {clean(flip.now.rationale) or '(none)'}"


def _before(flip: Flip) -> str:
    """The earlier answer and its verdict."""
    before = "(no longer stored)" if flip.answer_before is None else flip.answer_before
    return f"{clean(flip.verdict_before, 60)}: {clean(before) or '(none)'}"


def _title(number: int, offender: Offender) -> str:
    groups = ", ".join(clean(value, 60) for value in offender.groups.values())
    return f"  {number}. {clean(offender.id, 80)}  {groups}"


def exchange(offender: Offender, limit: int = 300) -> Iterator[str]:
    """Lines with the prompt, the answer, its verdict and the judge's rationale, made harmless.

    Args:
        limit: characters of each text.
    """
    verdict = offender.verdict + (f" ({offender.category})" if offender.category else "")
    if offender.expected:
        verdict += f"; the right one is {clean(offender.expected, 20)}"
    if offender.cut:
        verdict += f"; the judge did not see {offender.cut} characters of the answer"
    if offender.escaped:
        verdict += f"; {offender.escaped} special tokens were broken up for the judge"
    yield f"prompt:    {clean(offender.prompt, limit)}"
    yield f"answer:    {clean(offender.answer, limit) or '(none)'}"
    yield f"verdict:   {verdict}"
    yield f"rationale: {clean(offender.rationale, limit) or '(none)'}"


SHOWN = 10
"""Maximum number of mistakes that a message names."""


def judge_lines(checked: JudgeCheck) -> Iterator[str]:
    """Lines of the summary: is the judge trusted, what did the check cost, and its figures."""
    trusted = "is trusted" if checked.is_trusted else "is NOT trusted"
    cost = f"at most {checked.asked} verdicts asked for, {checked.seconds:.1f} s"
    yield f"judge {clean(checked.judge, 60)} {trusted} by its own check ({cost}):"
    for check in checked.checks:
        yield f"  {'pass' if check.passed else 'FAIL'}  {check.headline}"


def judge_message(check: Check) -> Iterator[str]:
    """Lines of a failed check: its result and the judge's mistakes, made harmless."""
    yield check.headline
    if check.mistakes:
        yield f"{min(SHOWN, len(check.mistakes))} of {len(check.mistakes)} wrong verdicts:"
    for mistake in check.mistakes[:SHOWN]:
        yield f"  {mistake.id} ({mistake.type}): {mistake.verdict}, correct is {mistake.expected}"
        yield f"     rationale: {clean(mistake.rationale) or '(none)'}"
