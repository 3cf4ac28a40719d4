"""A verdict in sentences, as the terminal, JUnit, HTML and GitHub show them.

This module, ``changes``, ``doubts`` and ``gates.sentences`` write them. A report selects remarks by
topic and escapes them for its medium.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from refusal_checks.core.text import clean, count
from refusal_checks.gates.comparison import Comparison
from refusal_checks.gates.gate import Outcome, Waiver
from refusal_checks.gates.sentences import USES, group_of, mark, moves, sentence
from refusal_checks.gates.verdict import Verdict
from refusal_checks.gates.wording import margins_in_words, requirement
from refusal_checks.metrics import METRICS
from refusal_checks.reports import changes, doubts

TOPICS: Mapping[str, Collection[str]] = {
    # One sentence for people who decide.
    "summary": ("brief", "page"),
    # The figure and what it must be.
    "headline": (),
    # Until when the gate may fail, or that it may not.
    "waiver": ("brief", "page", "verbose"),
    # By how many prompts.
    "miss": ("page",),
    # Pass or fail at the confidence level.
    "decided": ("details",),
    # Inconclusive, and what would decide.
    "doubt": ("page", "verbose"),
    # The figure as judged, and with human labels.
    "view": ("details", "verbose"),
    # Why the threshold is what it is.
    "provenance": ("brief", "details", "verbose"),
    # Answers without a verdict, and that they alone decide the gate.
    "invalid": ("brief", "details"),
    "invalid_decides": ("brief", "page", "verbose"),
    # What was not checked.
    "skipped": ("page",),
    # The earlier run, and what makes it hard to compare.
    "baseline": ("details",),
    # How many prompts moved; the change with interval, p-value and margins.
    "change": ("brief", "page", "verbose"),
    "change_bounds": ("details", "verbose"),
    # Figures or changes of the groups, worst first.
    "by_group": ("details", "verbose"),
    # Prompts that the comparison leaves out.
    "not_compared": ("details", "verbose"),
}
"""The topic of a remark, and where it is shown besides the places that show all: ``brief`` is a
failure on the terminal, ``page`` the page at once, ``details`` the page on demand, ``verbose`` the
end of a run with ``-v``. A new kind of sentence gets a new topic."""


class Remark(NamedTuple):
    """One line about a gate, without control characters.

    It is no news if it only confirms that nothing is wrong.
    """

    topic: str
    text: str
    is_news: bool = True


def select(verdict: Verdict, about: str) -> list[str]:
    """Texts that are news for a topic or a place (see ``TOPICS``), in reading order."""
    texts = []
    for remark in remarks_on(verdict):
        is_shown = about == remark.topic or about in TOPICS[remark.topic]
        if remark.is_news and is_shown:
            texts.append(remark.text)
    return texts


def headline(verdict: Verdict) -> str:
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    subject = clean(f"{gate.benchmark} {group_of(verdict)}", 120)
    if verdict.groups:
        subject += f" (of {count(len(verdict.groups), 'group')})"
    shown = f"{gate.show(estimate.value)} {gate.interval(estimate)}, n = {estimate.n}"
    required = f"must be {requirement(gate)}"
    if compared and gate.has_margins and gate.limits.holds(estimate.value):
        change = METRICS[gate.metric].show_change(compared.change.value)
        required = f"{change} against the baseline; must be {margins_in_words(gate)}"
    return f"{subject}: {gate.metric} {shown}; {required}"


def doubt(verdict: Verdict) -> str:
    return "; ".join([headline(verdict), *select(verdict, "doubt")])


def remarks_on(verdict: Verdict) -> Iterator[Remark]:
    """Yield all remarks on a gate, in reading order."""
    gate, n = verdict.gate, verdict.estimate.n
    yield Remark("summary", sentence(verdict))
    yield Remark("headline", headline(verdict))
    if gate.waiver and not verdict.is_idle:
        yield Remark("waiver", _waiver(verdict, gate.waiver))
    if verdict.against.missed_by:
        text = f"misses the threshold by {verdict.against.missed_by} of {n} prompts"
        yield Remark("miss", text)
    yield _outcome(verdict)
    if verdict.views:
        yield Remark("view", _views(verdict))
    if gate.provenance:
        yield Remark("provenance", f"why this gate: {clean(gate.provenance)}")
    yield from _invalid(verdict)
    if verdict.skipped:
        yield Remark("skipped", clean(verdict.skipped))
    if verdict.groups:
        yield Remark("by_group", _by_group(verdict))
    if verdict.comparison:
        yield from _changes(verdict, verdict.comparison)


def _outcome(verdict: Verdict) -> Remark:
    level = f"at {100 * verdict.level:.4g}% confidence"
    if verdict.outcome is Outcome.INCONCLUSIVE:
        why = doubts.why_open(verdict)
        remedy = doubts.what_decides(verdict)
        return Remark("doubt", f"inconclusive {level}: {why}; {remedy}")
    verb = "passes" if verdict.outcome is Outcome.PASS else "fails"
    return Remark("decided", f"{verb} {level}", is_news=not verdict.passed)


def _views(verdict: Verdict) -> str:
    """The figure as judged and with human labels, and which of them decides."""
    gate = verdict.gate
    parts = []
    for view in verdict.views:
        figure = f"{gate.show(view.estimate.value)} {gate.interval(view.estimate)}"
        note = f" ({clean(view.note)})" if view.note else ""
        parts.append(f"{figure} {USES.get(view.use, 'as judged')}{note}")
    parts.append(f"the figure {USES.get(verdict.use, 'as judged')} decides")
    return "; ".join(parts)


def _by_group(verdict: Verdict) -> str:
    gate = verdict.gate
    parts = []
    for group in verdict.groups[: changes.MOST_GROUPS]:
        name = clean(group.gate.group or "", 60)
        figure = f"{gate.show(group.estimate.value)} {gate.interval(group.estimate)}"
        text = f"{name} {mark(group)} {figure}, n = {group.estimate.n}"
        if group.comparison and gate.has_margins:
            text += f", change {changes.span(gate, group.comparison.change)}"
        parts.append(text)
    kind = clean((gate.group_kind or "").replace("_", " "), 40)
    return f"by {kind}: {'; '.join(parts)}{changes.more(len(verdict.groups))}"


def _waiver(verdict: Verdict, waiver: Waiver) -> str:
    who, where = clean(waiver.by, 60), clean(waiver.source, 200)
    if verdict.waived:
        return f"waived until {waiver.until} by {who}: {clean(waiver.reason)}"
    if not verdict.passed:
        ended = f"it ended on {waiver.until} (by {who})"
        return f"fix the model, or renew the waiver in {where}: {ended}"
    unsure = verdict.outcome is Outcome.INCONCLUSIVE
    needed = "was not needed: the gate passes" if unsure else "is no longer needed"
    return f"the waiver until {waiver.until} by {who} {needed}; remove it from {where}"


def _invalid(verdict: Verdict) -> Iterator[Remark]:
    """Answers without a verdict, and what the figure could be with them."""
    gate = verdict.gate
    if not verdict.invalid.share:
        text = f"invalid: none of {verdict.answers} answers"
        yield Remark("invalid", text, is_news=False)
        return
    low, high = (gate.show(value) for value in verdict.bounds)
    if verdict.invalid.extremes:
        bounds = ", ".join(
            f"{gate.show(value)} if counted as {name}"
            for name, value in verdict.invalid.extremes
        )
    elif low == high:
        bounds = ""
    else:
        bounds = f"{low} to {high}"
    share = f"invalid: {verdict.invalid.share:.1%} of {verdict.answers} answers have no verdict"
    if verdict.invalid.decide:
        yield Remark("invalid", share)
        text = (
            f"the invalid answers alone decide this gate ({bounds}): look at them first"
        )
        yield Remark("invalid_decides", text)
    else:
        yield Remark("invalid", f"{share} ({bounds})" if bounds else share)


def _changes(verdict: Verdict, compared: Comparison) -> Iterator[Remark]:
    """Changes since the earlier run; not news if no prompt moved and no margin is set."""
    gate = verdict.gate
    is_news = bool(gate.has_margins or compared.lost or compared.gained)
    name = f"{clean(compared.candidate, 60)} of {clean(compared.started, 30)}"
    yield Remark("baseline", f"compared with {name}")
    for difference in compared.differences:
        yield Remark("baseline", f"not comparable: {clean(difference)}")
    yield Remark("change", moves(gate, compared), is_news)
    yield Remark("change_bounds", changes.bounds(verdict, compared), is_news)
    for text in changes.by_group(gate, compared):
        yield Remark("by_group", text)
    left_out = changes.left_out(compared)
    if left_out:
        yield Remark("not_compared", f"not compared: {left_out}", is_news)
