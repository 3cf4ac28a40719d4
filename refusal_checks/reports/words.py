"""Figures, intervals and doubts in words: the same wherever a verdict is shown."""

from __future__ import annotations

from refusal_checks.core.text import clean
from refusal_checks.gates.checks import Outcome
from refusal_checks.gates.comparison import Comparison
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate


def figure(gate: Gate, value: float) -> str:
    """A figure as its gate's metric is usually written."""
    return METRICS[gate.metric].show(value)


def interval(gate: Gate, estimate: Estimate) -> str:
    """The interval alone, for example ``[71.1%, 86.7%]``."""
    lower, upper = (figure(gate, value) for value in (estimate.lower, estimate.upper))
    return f"[{lower}, {upper}]"


def mark(verdict: Verdict) -> str:
    """What became of the gate's test, in a word; with a question mark where nothing is decided."""
    if verdict.is_idle:
        return "skip"
    word = "FAIL" if not verdict.passed else "warn" if verdict.warns else "pass"
    return word + "?" * (verdict.outcome is Outcome.INCONCLUSIVE)


def finding(verdict: Verdict) -> str:
    """What is known at the confidence level and, where nothing is, what would decide."""
    at = f"at {100 * verdict.level:.4g}% confidence"
    if verdict.outcome is not Outcome.INCONCLUSIVE:
        return f"{verdict.outcome} {at}"
    return f"inconclusive {at}: {_open(verdict)}; {need(verdict)}"


WAYS = {
    "raw": "as judged",
    "corrected": "corrected for the judge's errors",
    "human": "with human labels",
}
"""A figure's ways in words."""


def views(verdict: Verdict) -> str:
    """The figure in all the ways it is known, and which one decides; empty where there is one."""
    gate = verdict.gate
    named = [
        f"{figure(gate, view.estimate.value)} {interval(gate, view.estimate)} {WAYS[view.use]}"
        + (f" ({clean(view.note)})" if view.note else "")
        for view in verdict.views
    ]
    return f"{'; '.join(named)}; decided by the one {WAYS[verdict.use]}" if named else ""


def noise(verdict: Verdict) -> str:
    """How far the judge agrees with itself; empty where it judged once."""
    found = verdict.noise
    if found is None:
        return ""
    share = found.flipped / found.answers if found.answers else 0.0
    show = METRICS[verdict.gate.metric].show
    return (
        f"judge noise: {share:.1%} of {found.answers} verdicts flip between {found.repeats} "
        f"repeats; the figure's standard deviation over them is {show(found.deviation)}, "
        f"{found.of_interval:.1%} of the interval's variance"
    )


def _open(verdict: Verdict) -> str:
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    ends = [end for end in (gate.minimum, gate.maximum) if end is not None]
    spanned = [end for end in ends if estimate.lower <= end <= estimate.upper]
    if spanned:
        return "the interval spans " + " and ".join(figure(gate, end) for end in spanned)
    if compared and gate.has_margins and _spans_a_margin(gate, compared):
        return "the bounds of the change span its margin"
    return "not enough for so many gates (Holm's correction)"


def _spans_a_margin(gate: Gate, compared: Comparison) -> bool:
    ends = [None if gate.max_drop is None else -gate.max_drop, gate.max_rise]
    return any(end is not None and compared.lower <= end <= compared.upper for end in ends)


def need(verdict: Verdict) -> str:
    """How many prompts or answers would decide, and on which assumption."""
    needed, n = verdict.need, verdict.estimate.n
    if needed is None:
        return "more prompts would decide"
    if needed.prompts is None:
        return "no number of prompts decides where the figure lies on the threshold"
    more = f"{needed.prompts} such prompts ({max(0, needed.prompts - n)} more)"
    samples = f", or {needed.samples} answers to each of these" if needed.samples else ""
    return f"{more}{samples} would decide, if the figure stayed as it is"


def bounds(verdict: Verdict) -> str:
    """The figure with all invalid answers counted one way, then the other."""
    gate = verdict.gate
    if not verdict.extremes:
        low, high = (figure(gate, value) for value in verdict.bounds)
        return low if low == high else f"{low} to {high}"
    named = (f"{figure(gate, value)} with all of them {name}" for name, value in verdict.extremes)
    return ", ".join(named)


def change(gate: Gate, compared: Comparison) -> str:
    """The change of a figure with its interval, for example ``-3.0 [-6.1, +0.2] points``."""
    found = compared.change
    shown = METRICS[gate.metric].show_change(found.value, found.lower, found.upper)
    return f"{shown}, n = {found.n}"


def one_sided(gate: Gate, compared: Comparison) -> str:
    """The one-sided bounds that margins are compared with."""
    show = METRICS[gate.metric].show_change
    named = []
    if gate.max_drop is not None:
        named.append(f"no lower than {show(compared.lower)} (margin {show(-gate.max_drop)})")
    if gate.max_rise is not None:
        named.append(f"no higher than {show(compared.upper)} (margin {show(gate.max_rise)})")
    return ", ".join(named)


def moves(gate: Gate, compared: Comparison) -> str:
    """How many prompts moved either way, with McNemar's p-value for a share."""
    lost = f"{compared.lost} prompt{'s' * (compared.lost != 1)}"
    if compared.p_flips is None:
        return f"{lost} fell, {compared.gained} rose"
    p = f"exact McNemar p = {compared.p_flips:.2g}"
    return f"{lost} left the {gate.metric}, {compared.gained} joined it, {p}"


def not_compared(compared: Comparison) -> str:
    """What the comparison leaves out; empty where that is nothing."""
    counts = {
        "in this run only": compared.only_now,
        "in the baseline only": compared.only_then,
        "worded differently": compared.reworded,
        "without a score in one of the runs": compared.unscored,
    }
    named = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    return f"not compared: prompts {named}" if named else ""


def baseline_name(compared: Comparison) -> str:
    """The earlier run: its candidate and when it was."""
    return f"{clean(compared.candidate, 60)} of {clean(compared.started, 30)}"
