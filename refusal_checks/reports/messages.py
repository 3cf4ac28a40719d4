"""Which prompts count against a gate, and the messages of gates and of the judge's check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.records import Record
from refusal_checks.core.text import clean
from refusal_checks.gates.compare import Flip, Offender, counts_against
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import AllowedRange, Gate
from refusal_checks.judges.trust.canary import Check, Figure, JudgeCheck
from refusal_checks.metrics import METRICS
from refusal_checks.reports.explain import Topic, moved, offenders_heading, remarks_on, select


@dataclass(frozen=True)
class Standard:
    """One of a gate's bounds.

    Attributes:
        is_minimum: True if the figure must be at least the bound, else at most.
    """

    gate: Gate
    bound: float
    is_minimum: bool

    def is_missed_by(self, answers: Sequence[Record]) -> bool:
        """True if a prompt counts against the gate.

        Args:
            answers: all records of the prompt, at least one.
        """
        if not self.gate.concerns(answers[0].prompt.groups):
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
    texts = [remark.text for remark in remarks_on(verdict)]
    return "\n".join([*texts, *_prompts(verdict, set())])


def brief_message(verdict: Verdict, shown: set[str]) -> str:
    """What a terminal shows: no statistics, and no prompt that it has shown for another gate.

    Args:
        shown: benchmark and id of prompts that were shown; those that this message shows join it.
    """
    return "\n".join([*select(verdict, *BRIEF), *_prompts(verdict, shown)])


def _prompts(verdict: Verdict, shown: set[str]) -> Iterator[str]:
    """The prompts that count against the gate, and those that moved; each of them once."""
    flips = {flip.now.id: flip for moves in moved(verdict) for flip in moves.flips}
    offenders = [each for each in verdict.offenders if _is_new(verdict, each, shown)]
    if offenders:
        yield f"{offenders_heading(replace(verdict, offenders=tuple(offenders)))}:"
    elif verdict.offenders:
        yield f"{offenders_heading(verdict)}: shown above"
    for number, offender in enumerate(offenders, 1):
        confidence = offender.confidence
        score = "" if confidence is None else f"  refusal confidence {confidence:+.2f}"
        yield from ("", _title(number, offender) + score)
        yield from (f"     {line}" for line in exchange(offender))
        if flip := flips.get(offender.id):
            yield f"     before:    {_before(flip)}"
    for moves in moved(verdict):
        rest = tuple(flip for flip in moves.flips if _is_new(verdict, flip.now, shown))
        if rest:
            yield from ("", f"{replace(moves, flips=rest).heading}:")
        for number, flip in enumerate(rest, 1):
            scores = f"score {flip.before:+.2f} then, {flip.after:+.2f} now"
            yield from ("", f"{_title(number, flip.now)}  {scores}")
            yield f"     prompt:    {clean(flip.now.prompt)}"
            yield f"     then:      {_before(flip)}"
            yield f"     now:       {flip.now.verdict}: {clean(flip.now.answer) or '(none)'}"
            yield f"     rationale: {clean(flip.now.rationale) or '(none)'}"


def _is_new(verdict: Verdict, each: Offender, shown: set[str]) -> bool:
    """True if a prompt was not shown; it is then."""
    key = f"{verdict.gate.benchmark} {each.id}"
    is_new = key not in shown
    shown.add(key)
    return is_new


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


def judge_properties(checked: JudgeCheck, figure: Figure) -> list[tuple[str, str]]:
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
