"""Messages of failed tests: why a gate failed and on which prompts, and the judge's mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from refusal_checks.core.text import count, sanitize
from refusal_checks.gates.comparison import Flip
from refusal_checks.gates.failing_prompts import FailingPrompt
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.trust.minimums import Check
from refusal_checks.wording.gate_sentences import (
    details,
    directions,
    figure,
    reasons,
)

Shown = set[tuple[str, str]]
"""Prompts that were shown already, each by benchmark and id."""

MISTAKES = 10
"""The most mistakes of a judge that one message names."""


def message(verdict: Verdict) -> str:
    """Everything known about a gate, with the prompts that count against it."""
    lines = [*reasons(verdict), figure(verdict), *details(verdict)]
    return "\n".join([*lines, *_prompts(verdict, set())])


def brief_message(verdict: Verdict, shown: Shown) -> str:
    """The message for a terminal, without statistics and prompts shown for another gate.

    Adds the prompts that it shows to ``shown``.
    """
    return "\n".join([*reasons(verdict), *_prompts(verdict, shown)])


def moved_prompts(verdict: Verdict) -> list[tuple[str, Sequence[Flip]]]:
    """A heading and some prompts for each direction in which prompts moved since the baseline."""
    compared = verdict.comparison
    found: list[tuple[str, Sequence[Flip]]] = []
    if compared:
        down, up = directions(verdict.gate, compared)
        for flips, total, how in (
            (compared.fell, compared.lost, down),
            (compared.rose, compared.gained, up),
        ):
            if flips:
                of_all = f"{len(flips)} of {count(total, 'prompt')}"
                found.append((f"{of_all} {how} since the baseline", flips))
    return found


def _prompts(verdict: Verdict, shown: Shown) -> Iterator[str]:
    """The prompts that count against the gate; if none does, those that moved."""
    groups = moved_prompts(verdict)
    flips = {flip.now.id: flip for flip in chain(*(each for _, each in groups))}
    if verdict.failing_prompts:
        total = verdict.violations.prompts
        verb = "counts" if total == 1 else "count"
        heading = f"{count(total, 'prompt')} {verb} against this gate"
        if len(verdict.failing_prompts) < total:
            heading += f", the worst {len(verdict.failing_prompts)}"
        yield from _entries(verdict, heading, verdict.failing_prompts, flips, shown)
        return
    for heading, moved_so in groups:
        yield from _entries(
            verdict, heading, [flip.now for flip in moved_so], flips, shown
        )


def _entries(
    verdict: Verdict,
    heading: str,
    prompts: Sequence[FailingPrompt],
    flips: dict[str, Flip],
    shown: Shown,
) -> Iterator[str]:
    """A numbered list of prompts, each with its earlier answer if it moved."""
    benchmark, metric = verdict.gate.benchmark, METRICS[verdict.gate.metric]
    # Gates on groups fail on the prompts of the whole benchmark: each is shown once.
    unseen = [each for each in prompts if (benchmark, each.id) not in shown]
    shown.update((benchmark, each.id) for each in unseen)
    yield f"{heading}:" if unseen else f"{heading}: see above"
    for number, prompt in enumerate(unseen, 1):
        groups = ", ".join(sanitize(group, 60) for group in prompt.groups.values())
        head = [f"  {number}. {sanitize(prompt.id, 80)}", *filter(None, [groups])]
        if prompt.answers > 1:
            times = f"{prompt.like} of {prompt.answers} times"
            head.append(f"{sanitize(prompt.verdict, 60)} {times}")
        flip = flips.get(prompt.id)
        if flip:
            before, after = map(metric.show_score, (flip.before, flip.after))
            head.append(f"{metric.scored} {before} then, {after} now")
        yield ""
        yield "  ".join(head)
        yield from (f"     {line}" for line in exchange(prompt))
        if flip:
            earlier = "(no longer stored)"
            if flip.answer_before is not None:
                earlier = sanitize(flip.answer_before) or "(none)"
            yield f"     before:    {sanitize(flip.verdict_before, 60)}: {earlier}"


def exchange(failing_prompt: FailingPrompt) -> Iterator[str]:
    """Prompt, answer, verdict and rationale, each escaped and cut."""
    verdict = failing_prompt.verdict
    if failing_prompt.category:
        verdict += f" ({failing_prompt.category})"
    if failing_prompt.expected:
        verdict += f"; the correct one is {failing_prompt.expected[:20]}"
    if failing_prompt.cut:
        verdict += (
            f"; the judge did not see {failing_prompt.cut} characters of the answer"
        )
    if failing_prompt.escaped:
        verdict += (
            f"; {failing_prompt.escaped} special tokens were broken up for the judge"
        )
    # Each line begins with a label of ours, so that no text can pass for another field.
    yield f"prompt:    {sanitize(failing_prompt.prompt)}"
    yield f"answer:    {sanitize(failing_prompt.answer) or '(none)'}"
    yield f"verdict:   {sanitize(verdict)}"
    yield f"rationale: {sanitize(failing_prompt.rationale) or '(none)'}"


def judge_message(check: Check) -> Iterator[str]:
    """Lines on a failed check: its result and the judge's mistakes, escaped."""
    yield check.headline
    shown = check.mistakes[:MISTAKES]
    if shown:
        yield f"{len(shown)} of {count(len(check.mistakes), 'wrong verdict')}:"
    for mistake in shown:
        yield f"  {mistake.id} ({mistake.type}): {mistake.verdict}, correct is {mistake.expected}"
        yield f"     rationale: {sanitize(mistake.rationale) or '(none)'}"
