"""A verdict in sentences: all that the terminal, JUnit, HTML and GitHub say about a gate.

Only this module and ``gates.sentences`` formulate them. A report selects remarks by topic and
escapes them for its medium.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from refusal_checks.core.text import clean, count
from refusal_checks.gates.comparison import Comparison, Flip
from refusal_checks.gates.gate import Gate, Outcome, Waiver
from refusal_checks.gates.group_changes import most_changed
from refusal_checks.gates.sentences import USES, moves, sentence
from refusal_checks.gates.sentences import group_of as group_of
from refusal_checks.gates.sentences import mark as mark
from refusal_checks.gates.verdict import Verdict
from refusal_checks.gates.wording import margins_in_words, requirement
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.results.summary import RunSummary

TOPICS: Mapping[str, Collection[str]] = {
    "summary": ("brief", "page"),  # one sentence for people who decide
    "headline": (),  # the figure and what it must be
    "waiver": (
        "brief",
        "page",
        "verbose",
    ),  # until when the gate may fail, or that it may not
    "miss": ("page",),  # by how many prompts
    "decided": ("details",),  # pass or fail at the confidence level
    "doubt": ("page", "verbose"),  # inconclusive, and what would decide
    "view": (
        "details",
        "verbose",
    ),  # the figure as judged, corrected, with human labels
    "provenance": ("brief", "details", "verbose"),  # why the threshold is what it is
    "invalid": ("brief", "details"),  # answers without a verdict
    "invalid_decides": ("brief", "page", "verbose"),  # they alone decide the gate
    "skipped": ("page",),  # what was not checked
    "baseline": ("details",),  # the earlier run, and what makes it hard to compare
    "change": ("brief", "page", "verbose"),  # how many prompts moved
    "change_bounds": (
        "details",
        "verbose",
    ),  # the change with interval, p-value and margins
    "by_group": ("details", "verbose"),  # figures or changes of the groups, worst first
    "not_compared": ("details", "verbose"),  # prompts that the comparison leaves out
}
"""What a remark is about, and who shows it beside those that show all: a terminal's failures, the
page at once, the page on demand, the end of a run with ``-v``. A new kind of sentence gets a new
topic."""


class Remark(NamedTuple):
    """One harmless line about a gate; no news if it only confirms that nothing is wrong."""

    topic: str
    text: str
    is_news: bool = True


class Moved(NamedTuple):
    """Prompts that moved in one direction since an earlier run."""

    how: str  # how many there are in all, and how they moved
    flips: Sequence[Flip]  # some of them, with untrusted texts, unescaped

    @property
    def heading(self) -> str:
        return f"{len(self.flips)} of {self.how}"


def select(verdict: Verdict, about: str) -> list[str]:
    """The texts that are news on a topic, or for those that show it, in reading order."""
    every = remarks_on(verdict)
    return [x.text for x in every if x.is_news and about in (x.topic, *TOPICS[x.topic])]


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


def moved(verdict: Verdict, since: str = "the baseline") -> list[Moved]:
    """The prompts that moved since an earlier run, which ``since`` names, by direction."""
    compared = verdict.comparison
    if compared is None:
        return []
    if compared.p_flips is None:
        scored = METRICS[verdict.gate.metric].scored
        down, up = f"whose {scored} fell", f"whose {scored} rose"
    else:
        metric = verdict.gate.metric
        counted = METRICS[metric].counted or f"counted in {metric}"
        down, up = f"no longer {counted}", f"newly {counted}"
    found = [
        Moved(f"{count(compared.lost, 'prompt')} {down} since {since}", compared.fell),
        Moved(f"{count(compared.gained, 'prompt')} {up} since {since}", compared.rose),
    ]
    return [each for each in found if each.flips]


def spurious_failures(summary: RunSummary) -> str:
    failures = f"{summary.expected_failures:.2g} spurious failure"
    return (
        f"If every rate sat exactly on its threshold, expect about {failures}"
        f"{'' if failures.startswith('1 ') else 's'} among {count(len(summary.verdicts), 'gate')}, "
        f"{summary.expected_breaches:.2g} of them with the whole interval beyond the threshold."
    )


def remarks_on(verdict: Verdict) -> Iterator[Remark]:
    gate, n = verdict.gate, verdict.estimate.n
    yield Remark("summary", sentence(verdict))
    yield Remark("headline", headline(verdict))
    if gate.waiver and not verdict.is_idle:
        yield Remark("waiver", _waiver(verdict, gate.waiver))
    if verdict.against.missed_by:
        yield Remark(
            "miss",
            f"misses the threshold by {verdict.against.missed_by} of {n} prompts",
        )
    level = f"at {100 * verdict.level:.4g}% confidence"
    if verdict.outcome is Outcome.INCONCLUSIVE:
        text = f"inconclusive {level}: {_why_open(verdict)}; {what_decides(verdict)}"
        yield Remark("doubt", text)
    else:
        verb = "passes" if verdict.outcome is Outcome.PASS else "fails"
        yield Remark("decided", f"{verb} {level}", not verdict.passed)
    views = ""
    for view in verdict.views:
        note = f" ({clean(view.note)})" if view.note else ""
        shown = f"{gate.show(view.estimate.value)} {gate.interval(view.estimate)}"
        views += f"{shown} {USES.get(view.use, 'as judged')}{note}; "
    if views:
        yield Remark(
            "view", f"{views}the figure {USES.get(verdict.use, 'as judged')} decides"
        )
    if gate.provenance:
        yield Remark("provenance", f"why this gate: {clean(gate.provenance)}")
    yield from _invalid(verdict)
    if verdict.skipped:
        yield Remark("skipped", clean(verdict.skipped))
    if verdict.groups:
        yield Remark("by_group", _by_group(verdict))
    if verdict.comparison:
        yield from _changes(verdict, verdict.comparison)


MOST_GROUPS = 12
"""Groups that a remark names; the page has a table of all."""


def _by_group(verdict: Verdict) -> str:
    gate, named = verdict.gate, []
    for each in verdict.groups[:MOST_GROUPS]:
        figure = f"{gate.show(each.estimate.value)} {gate.interval(each.estimate)}"
        shown = f"{clean(each.gate.group or '', 60)} {mark(each)} {figure}, n = {each.estimate.n}"
        if each.comparison and gate.has_margins:
            shown += f", change {_span(gate, each.comparison.change)}"
        named.append(shown)
    kind = clean((gate.group_kind or "").replace("_", " "), 40)
    return f"by {kind}: {'; '.join(named)}{_more(len(verdict.groups))}"


def _span(gate: Gate, change: Estimate) -> str:
    return METRICS[gate.metric].show_change(change.value, change.lower, change.upper)


def _more(groups: int) -> str:
    return f"; and {groups - MOST_GROUPS} more" if groups > MOST_GROUPS else ""


def changes_by_group(gate: Gate, compared: Comparison) -> Iterator[str]:
    """For each kind of group the changes of those that moved, the most changed first."""
    sign = -1 if compared.change.value < 0 else 1
    for kind in dict.fromkeys(each.kind for each in compared.groups):
        of_kind = [each for each in compared.groups if each.kind == kind]
        moved = [
            each for each in most_changed(of_kind, sign) if each.lost or each.gained
        ]
        shown = [
            f"{clean(each.group, 60)} {_span(gate, each.change)}, n = {each.change.n}"
            for each in moved[:MOST_GROUPS]
        ]
        if shown:
            name = clean(kind.replace("_", " "), 40)
            yield f"change by {name}: {'; '.join(shown)}{_more(len(moved))}"


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


def _why_open(verdict: Verdict) -> str:
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    if verdict.invalid.leave_open:
        return f"the valid answers pass, but {' and '.join(_worst_cases(verdict))}"
    inside = [
        end for end in gate.limits.ends if estimate.lower <= end <= estimate.upper
    ]
    if inside:
        thresholds = " and ".join(gate.show(end) for end in inside)
        return f"the interval contains the threshold {thresholds}"
    margins = gate.change_limits.ends
    if compared and any(compared.lower <= end <= compared.upper for end in margins):
        return "the interval of the change contains its margin"
    return "not significant after Holm's correction for the number of gates"


def _worst_cases(verdict: Verdict) -> Iterator[str]:
    gate, compared = verdict.gate, verdict.comparison
    if (
        verdict.invalid.worst
        and gate.limits.outcome(*verdict.invalid.worst) is not Outcome.PASS
    ):
        low, high = (gate.show(end) for end in verdict.invalid.worst)
        yield f"with the invalid ones counted one way or the other the interval is [{low}, {high}]"
    worst = compared and compared.worst
    if compared and worst and gate.change_limits.outcome(*worst) is not Outcome.PASS:
        low, high = (METRICS[gate.metric].show_change(end) for end in worst)
        prompts = count(compared.doubtful, "prompt")
        yield f"the change of {prompts} with invalid answers leaves bounds of {low} and {high}"


def _invalid(verdict: Verdict) -> Iterator[Remark]:
    gate = verdict.gate
    if not verdict.invalid.share:
        yield Remark(
            "invalid", f"invalid: none of {verdict.answers} answers", is_news=False
        )
        return
    low, high = (gate.show(value) for value in verdict.bounds)
    extremes = [
        f"{gate.show(value)} if counted as {name}"
        for name, value in verdict.invalid.extremes
    ]
    bounds = ", ".join(extremes) or ("" if low == high else f"{low} to {high}")
    share = f"invalid: {verdict.invalid.share:.1%} of {verdict.answers} answers have no verdict"
    yield Remark(
        "invalid",
        share + (f" ({bounds})" if bounds and not verdict.invalid.decide else ""),
    )
    if verdict.invalid.decide:
        text = (
            f"the invalid answers alone decide this gate ({bounds}): look at them first"
        )
        yield Remark("invalid_decides", text)


def _changes(verdict: Verdict, compared: Comparison) -> Iterator[Remark]:
    gate, change = verdict.gate, compared.change
    show = METRICS[gate.metric].show_change
    name = f"{clean(compared.candidate, 60)} of {clean(compared.started, 30)}"
    yield Remark("baseline", f"compared with {name}")
    for difference in compared.differences:
        yield Remark("baseline", f"not comparable: {clean(difference)}")
    is_news = bool(gate.has_margins or compared.lost or compared.gained)
    yield Remark("change", moves(gate, compared), is_news)
    span = show(change.value, change.lower, change.upper)
    parts = [f"change {span}, n = {change.n}"]
    p = compared.p_flips
    if p is not None and (compared.lost or compared.gained):
        parts.append("McNemar's p < 0.001" if p < 0.001 else f"McNemar's p = {p:.2g}")
    low, high = gate.change_limits.low, gate.change_limits.high
    bound = f"(one-sided {100 * verdict.level:.4g}% bound)"
    drop, rise = gate.margin_names
    if low is not None:
        parts.append(
            f"at least {show(compared.lower)} {bound}, {drop} allows {show(low)}"
        )
    if high is not None:
        parts.append(
            f"at most {show(compared.upper)} {bound}, {rise} allows {show(high)}"
        )
    yield Remark("change_bounds", "; ".join(parts), is_news)
    for text in changes_by_group(gate, compared):
        yield Remark("by_group", text)
    counts = (
        (compared.only_now, "only in this run"),
        (compared.only_then, "only in the baseline"),
        (compared.reworded, "with another wording"),
        (compared.unscored, "without a verdict in one of the runs"),
    )
    if left_out := [f"{count(n, 'prompt')} {why}" for n, why in counts if n]:
        yield Remark("not_compared", f"not compared: {', '.join(left_out)}", is_news)


_LABELS = {
    "human": ("human labels of {} prompts {}", "human labels"),
    "corrected": ("a calibration on {} labels {}", "labels in the calibration"),
    "cascade": (
        "the second judge's verdicts on {} prompts {}, see judge.cascade.sample,",
        "verdicts of the second judge",
    ),
}
"""What more labels are called by the use of the figure: so many more, and more alone."""


def what_decides(verdict: Verdict) -> str:
    need, n = verdict.need, verdict.estimate.n
    if verdict.invalid.leave_open:
        return "verdicts on these answers would decide it"
    if verdict.missing:
        return verdict.missing
    if need is None:
        more = (
            "a larger judge.cascade.sample, or more prompts,"
            if verdict.use == "cascade"
            else None
        )
        return f"{more or 'more prompts'} would decide it"
    so_many, labels = _LABELS.get(verdict.use) or _LABELS["human"]
    ways = []
    if need.labelled is not None and need.labels:
        ways.append(
            so_many.format(need.labels, f"({need.labels - need.labelled} more)")
        )
    if need.prompts:
        ways.append(f"{need.prompts} prompts ({max(0, need.prompts - n)} more)")
    if need.labelled is None and need.samples:
        ways.append(f"{need.samples} answers to each prompt,")
    if ways:
        return f"{', or '.join(ways)} would decide it 4 times in 5, if this is the true figure"
    if need.labelled is None:
        return "the figure lies exactly on it, so more prompts would not decide it"
    return f"neither more prompts nor more {labels} alone would decide it"
