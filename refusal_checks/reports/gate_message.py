"""The message of a breached gate."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import clean
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports.explain import Moved, explain, moved, offenders_heading


def message(verdict: Verdict) -> str:
    """Everything needed to understand a breached gate, with model output made harmless."""
    return "\n".join(_lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    for remark in explain(verdict):
        yield remark.text
    if verdict.offenders:
        yield f"{offenders_heading(verdict)}:"
    for number, offender in enumerate(verdict.offenders, 1):
        confidence = offender.confidence
        shown = "" if confidence is None else f"  refusal confidence {confidence:+.2f}"
        yield from ("", _title(number, offender) + shown)
        for line in exchange(offender):
            yield f"     {line}"
    for moves in moved(verdict):
        yield from _moves(moves)


def _moves(moves: Moved) -> Iterator[str]:
    yield from ("", f"{moves.heading}:")
    for number, flip in enumerate(moves.flips, 1):
        before = "(no longer stored)" if flip.answer_before is None else flip.answer_before
        scores = f"score {flip.before:+.2f} then, {flip.after:+.2f} now"
        yield from ("", f"{_title(number, flip.now)}  {scores}")
        yield f"     prompt:    {clean(flip.now.prompt)}"
        yield f"     then:      {clean(flip.verdict_before, 60)}: {clean(before) or '(none)'}"
        yield f"     now:       {flip.now.verdict}: {clean(flip.now.answer) or '(none)'}"
        yield f"     rationale: {clean(flip.now.rationale) or '(none)'}"


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
