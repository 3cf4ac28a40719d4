"""The message of a breached gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refusal_checks.core.text import clean
from refusal_checks.gates.checks import AllowedRange
from refusal_checks.gates.comparison import Comparison, Flip
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.reports import words


def headline(verdict: Verdict) -> str:
    """The finding in one short line."""
    gate, estimate = verdict.gate, verdict.estimate
    where = " ".join(filter(None, (gate.benchmark, gate.group)))
    value = words.figure(gate, estimate.value)
    found = f"{where}: {gate.metric} {value} {words.interval(gate, estimate)}, n = {estimate.n}"
    return f"{found}; {_breach(verdict)}"


def _breach(verdict: Verdict) -> str:
    """What the gate asks for: of the figure or, where that is kept to, of its change."""
    gate, compared = verdict.gate, verdict.comparison
    figure_is_met = AllowedRange(gate.minimum, gate.maximum).holds(verdict.estimate.value)
    if compared and gate.has_margins and figure_is_met:
        moved = METRICS[gate.metric].show_change(compared.change.value)
        return f"{moved} against the baseline; must be {gate.margins}"
    return f"must be {gate.threshold}"


def message(verdict: Verdict) -> str:
    """Everything that a reader needs to understand a breached gate, model output made harmless."""
    return "\n".join(_lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    gate = verdict.gate
    yield headline(verdict)
    if verdict.missed_by:
        yield f"missed by {verdict.missed_by} of {verdict.estimate.n} prompts"
    yield words.finding(verdict)
    if verdict.views:
        yield words.views(verdict)
    if verdict.noise:
        yield words.noise(verdict)
    if gate.provenance:
        yield f"why this gate: {clean(gate.provenance)}"
    yield from _invalid(verdict)
    if verdict.skipped:
        yield verdict.skipped
    if verdict.comparison:
        yield from _comparison(verdict, verdict.comparison)
    if verdict.offenders:
        total = verdict.counted_against
        yield f"worst {len(verdict.offenders)} of the {total} prompts that count against it:"
    for number, offender in enumerate(verdict.offenders, 1):
        yield ""
        yield from _offender(number, offender)
    if verdict.comparison:
        yield from _flips(verdict, verdict.comparison)


def _invalid(verdict: Verdict) -> Iterator[str]:
    if not verdict.invalid:
        yield f"invalid: none of {verdict.answers} answers, so no bounds but the figure itself"
        return
    yield f"invalid: {verdict.invalid:.1%} of {verdict.answers} answers have no verdict"
    yield f"bounds: {words.bounds(verdict)}"
    if verdict.flips:
        yield "the invalid answers alone decide this gate: look at them first"


def _comparison(verdict: Verdict, compared: Comparison) -> Iterator[str]:
    gate = verdict.gate
    yield f"against {words.baseline_name(compared)}: {words.change(gate, compared)}"
    if gate.has_margins:
        yield f"change: {words.one_sided(gate, compared)}, one-sided"
    yield f"flips: {words.moves(gate, compared)}"
    if left_out := words.not_compared(compared):
        yield left_out
    for difference in compared.differences:
        yield f"not comparable: {clean(difference)}"


def _flips(verdict: Verdict, compared: Comparison) -> Iterator[str]:
    is_share = compared.p_flips is not None
    metric = verdict.gate.metric
    down, up = (f"left the {metric}", f"joined the {metric}") if is_share else ("fell", "rose")
    yield from _moved(compared.fell, compared.lost, down)
    yield from _moved(compared.rose, compared.gained, up)


def _moved(flips: Sequence[Flip], total: int, how: str) -> Iterator[str]:
    if not flips:
        return
    yield ""
    yield f"worst {len(flips)} of the {total} prompts that {how} since the baseline:"
    for number, flip in enumerate(flips, 1):
        before = "(not stored any more)" if flip.answer_before is None else flip.answer_before
        yield ""
        yield _who(number, flip.now) + f"  score {flip.before:+.2f} then, {flip.after:+.2f} now"
        yield f"     prompt:    {clean(flip.now.prompt)}"
        yield f"     then:      {clean(flip.verdict_before, 60)}: {clean(before) or '(none)'}"
        yield f"     now:       {flip.now.verdict}: {clean(flip.now.answer) or '(none)'}"
        yield f"     rationale: {clean(flip.now.rationale) or '(none)'}"


def _who(number: int, offender: Offender) -> str:
    groups = ", ".join(clean(value, 60) for value in offender.groups.values())
    return f"  {number}. {clean(offender.id, 80)}  {groups}"


def _offender(number: int, offender: Offender) -> Iterator[str]:
    confidence = "none" if offender.confidence is None else f"{offender.confidence:+.2f}"
    yield f"{_who(number, offender)}  refusal confidence {confidence}"
    for line in exchange(offender):
        yield f"     {line}"


def exchange(offender: Offender, limit: int = 300) -> Iterator[str]:
    """Lines on what was asked and answered, and what the judge said, made harmless.

    Args:
        limit: characters of each text.
    """
    verdict = offender.verdict + (f" ({offender.category})" if offender.category else "")
    if offender.cut:
        verdict += f", on a part of the answer: {offender.cut} characters not read"
    yield f"prompt:    {clean(offender.prompt, limit)}"
    yield f"answer:    {clean(offender.answer, limit) or '(none)'}"
    yield f"verdict:   {verdict}"
    yield f"rationale: {clean(offender.rationale, limit) or '(none)'}"
