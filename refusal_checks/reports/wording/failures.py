"""Messages of failed tests: why a gate failed and on which prompts, and the judge's mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import Reason
from refusal_checks.gates.comparison import Flip
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import Check
from refusal_checks.metrics import METRICS
from refusal_checks.reports.wording.verdicts import (
    details,
    headline,
    reasons,
    sentence,
    waiver,
)

Shown = set[tuple[str, str]]
"""Prompts that were shown already, each by benchmark and id."""

_UNREAD = ("", Reason.UNPARSABLE_VERDICT.value)
"""Marks in ``Shown`` that an unreadable verdict was shown: one example is enough."""

MISTAKES = 10
"""The most mistakes of a judge that one message names."""


class Moved(NamedTuple):
    """Prompts that moved in one direction since an earlier run.

    Attributes:
        how: how many prompts moved, and how.
        flips: some of them; their texts are untrusted and not escaped.
    """

    how: str
    flips: Sequence[Flip]

    @property
    def heading(self) -> str:
        return f"{len(self.flips)} of {self.how}"


def moved(verdict: Verdict) -> list[Moved]:
    """The prompts that moved since the baseline, by direction."""
    compared = verdict.comparison
    if compared is None:
        return []
    metric = METRICS[verdict.gate.metric]
    if compared.of_prompts:
        counted = metric.counted or f"counted in {metric.name}"
        down, up = f"no longer {counted}", f"newly {counted}"
    else:
        down, up = f"whose {metric.scored} fell", f"whose {metric.scored} rose"
    fell = f"{count(compared.lost, 'prompt')} {down} since the baseline"
    rose = f"{count(compared.gained, 'prompt')} {up} since the baseline"
    both = [Moved(fell, compared.fell), Moved(rose, compared.rose)]
    return [moves for moves in both if moves.flips]


def message(verdict: Verdict) -> str:
    """Everything known about a gate, with the prompts that count against it."""
    lines = [*reasons(verdict), headline(verdict), *details(verdict)]
    return "\n".join([*lines, *_prompts(verdict, set())])


def failure_line(verdict: Verdict) -> str:
    """One line on a gate that did not pass; a waiver comes first."""
    given = waiver(verdict) if verdict.waived else []
    return "; ".join([*given, f"{verdict.gate.benchmark}: {sentence(verdict)}"])


def brief_message(verdict: Verdict, shown: Shown) -> str:
    """The message for a terminal, without statistics and prompts shown for another gate.

    Adds the prompts that it shows to ``shown``.
    """
    # The run's summary on the terminal shows an example of what a judge wrote instead of a verdict.
    shown.add(_UNREAD)
    return "\n".join([*reasons(verdict), *_prompts(verdict, shown)])


def _prompts(verdict: Verdict, shown: Shown) -> Iterator[str]:
    """The prompts that count against the gate, then those that moved, each once."""
    moves_since_baseline = moved(verdict)
    flips: dict[str, Flip] = {}
    for moves in moves_since_baseline:
        for flip in moves.flips:
            flips[flip.now.id] = flip
    benchmark, total = verdict.gate.benchmark, verdict.against.prompts
    offenders = [
        prompt for prompt in verdict.offenders if (benchmark, prompt.id) not in shown
    ]
    shown.update((benchmark, prompt.id) for prompt in offenders)
    if verdict.offenders:
        verb = "counts" if total == 1 else "count"
        heading = f"{count(total, 'prompt')} {verb} against this gate"
        if not offenders:
            yield f"{heading}: see above"
        elif len(offenders) < total:
            yield f"{heading}, the worst {len(offenders)}:"
        else:
            yield f"{heading}:"
    for number, prompt in enumerate(offenders, 1):
        like = ""
        if prompt.answers > 1:
            like = (
                f"{clean(prompt.verdict, 60)} {prompt.like} of {prompt.answers} times"
            )
        yield from _entry(number, prompt, like, flips.get(prompt.id), shown)
    for moves in moves_since_baseline:
        yield from _moves(verdict, moves, shown)


def _moves(verdict: Verdict, moves: Moved, shown: Shown) -> Iterator[str]:
    benchmark = verdict.gate.benchmark
    flips = [flip for flip in moves.flips if (benchmark, flip.now.id) not in shown]
    shown.update((benchmark, flip.now.id) for flip in flips)
    if not flips:
        return
    metric = METRICS[verdict.gate.metric]
    yield ""
    yield f"{moves._replace(flips=flips).heading}:"
    for number, flip in enumerate(flips, 1):
        before, after = map(metric.show_score, (flip.before, flip.after))
        score = f"{metric.scored} {before} then, {after} now"
        yield from _entry(number, flip.now, score, flip, shown)


def _entry(
    number: int, prompt: Offender, score: str, flip: Flip | None, shown: Shown
) -> Iterator[str]:
    """An entry of a numbered list: a prompt, with its earlier answer if it moved."""
    groups = ", ".join(clean(value, 60) for value in prompt.groups.values())
    yield ""
    head = [f"  {number}. {clean(prompt.id, 80)}", groups, score]
    yield "  ".join(filter(None, head))
    lines = list(exchange(prompt))
    if prompt.verdict == Reason.UNPARSABLE_VERDICT:
        if _UNREAD in shown:
            lines.pop()  # what the judge wrote
        shown.add(_UNREAD)
    for line in lines:
        yield f"     {line}"
    if flip:
        answer = flip.answer_before
        if answer is None:
            answer = "(no longer stored)"
        verdict_before = clean(flip.verdict_before, 60)
        yield f"     before:    {verdict_before}: {clean(answer) or '(none)'}"


def exchange(offender: Offender) -> Iterator[str]:
    """Prompt, answer, verdict and rationale, each escaped and cut."""
    verdict = offender.verdict
    if offender.category:
        verdict += f" ({offender.category})"
    if offender.expected:
        verdict += f"; the right one is {offender.expected[:20]}"
    if offender.cut:
        verdict += f"; the judge did not see {offender.cut} characters of the answer"
    if offender.escaped:
        verdict += f"; {offender.escaped} special tokens were broken up for the judge"
    yield f"prompt:    {clean(offender.prompt)}"
    yield f"answer:    {clean(offender.answer) or '(none)'}"
    yield f"verdict:   {clean(verdict)}"
    yield f"rationale: {clean(offender.rationale) or '(none)'}"


def judge_message(check: Check) -> Iterator[str]:
    """Lines on a failed check: its result and the judge's mistakes, escaped."""
    yield check.headline
    shown = check.mistakes[:MISTAKES]
    if shown:
        yield f"{len(shown)} of {len(check.mistakes)} wrong verdicts:"
    for mistake in shown:
        yield f"  {mistake.id} ({mistake.type}): {mistake.verdict}, correct is {mistake.expected}"
        yield f"     rationale: {clean(mistake.rationale) or '(none)'}"
