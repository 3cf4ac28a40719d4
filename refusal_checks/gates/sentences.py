"""A verdict in one sentence, for people who decide and do not read statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.gates.comparison import Comparison, most_changed
from refusal_checks.gates.gate import AllowedRange, Gate, Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric

_WORDS = {
    Kind.SAFETY.value: ("harmful prompts", "every time", "under every attack"),
    Kind.SANITY.value: (
        "harmless prompts",
        "at least once",
        "under at least one attack",
    ),
    Kind.SENSITIVE.value: (
        "sensitive prompts",
        "by its worst answer",
        "under the worst attack",
    ),
}
"""What prompts are called, how often their worst answers refuse, and under how many attacks."""

USES = {
    "corrected": "corrected for the judge's errors",
    "human": "with people's labels of some answers",
    "cascade": "corrected by the second judge's sample",
}  # what a figure rests on, unless it is as judged


def sentence(verdict: Verdict) -> str:
    """What was found, what is allowed, and how it was in the earlier run: one harmless sentence.

    It names the group, not the benchmark, and no interval where the figure alone decides. An
    example: "Refuses 60% of harmless prompts (allowed: 10%), 51 points more than release-1.3."
    """
    if verdict.groups:
        return f"{sentence(verdict.groups[0]).removesuffix('.')}, {_of_every_group(verdict)}."
    gate, compared = verdict.gate, verdict.comparison
    text = _subject(verdict) + (f", {USES[verdict.use]}" if verdict.use in USES else "")
    if gate.has_bounds:
        hint = reversed_bound(verdict)
        text += f" ({_required(gate)}{f'; {hint}' if hint else ''})"
    if compared:
        text += f", {'by the judge alone ' * bool(compared.missing)}{_moved(verdict, compared)}"
        text += carried(verdict, compared)
    if verdict.skipped:
        text += "; its change was not checked, for want of a baseline"
    return f"{text}{_doubt(verdict)}."


MOST_GROUPS = 3
"""Groups that a sentence names."""


def carried(verdict: Verdict, compared: Comparison) -> str:
    """Which groups of prompts carry a change that fails its margin; empty if none surely does."""
    gate = verdict.gate
    if verdict.passed or not gate.has_margins:
        return ""
    if gate.change_limits.outcome(compared.lower, compared.upper) is Outcome.PASS:
        return ""
    sign = -1 if compared.change.value < 0 else 1
    ranked = most_changed(compared.groups, sign)
    groups = [each for each in ranked if each.is_certain(sign)]
    if not groups:
        return ""
    if len(groups) == len(ranked):
        return f"; in every {_kind(groups[0].kind)}"
    named = []
    for each in groups[:MOST_GROUPS]:
        moved = each.lost if sign < 0 else each.gained
        named.append(
            f"{clean(each.group, 60)} ({moved} of {count(each.change.n, 'prompt')})"
        )
    if len(groups) > MOST_GROUPS:
        named.append(f"{len(groups) - MOST_GROUPS} more")
    return f"; carried by {_kind(groups[0].kind)} {_listed(named)}"


def group_of(verdict: Verdict) -> str:
    """The group that the figure is about: of a gate on every group the worst one; mostly empty."""
    return (
        verdict.groups[0].gate.group or ""
        if verdict.groups
        else verdict.gate.group or ""
    )


def _of_every_group(verdict: Verdict) -> str:
    """Of how many groups the one named is the worst, and which others fail."""
    gate, (worst, *others) = verdict.gate, verdict.groups
    place = "nearest to its bound" if worst.passed else "worst"
    text = f"the {place} of {count(len(verdict.groups), 'group')} by {_kind(gate.group_kind or '')}"
    failed = [each for each in others if not each.passed]
    if not failed:
        return text
    named = []
    for each in failed[:MOST_GROUPS]:
        figure = rounded(METRICS[gate.metric], each.estimate.value, gate.limits.ends)
        compared = each.comparison
        if compared and gate.limits.holds(each.estimate.value):
            figure = METRICS[gate.metric].show_change(compared.change.value)
        named.append(f"{clean(each.gate.group or '', 60)} ({figure})")
    if len(failed) > MOST_GROUPS:
        named.append(f"{len(failed) - MOST_GROUPS} more")
    verb = "fails" if len(failed) == 1 else "fail"
    return f"{text}; {_listed(named)} {verb} too"


def _kind(kind: str) -> str:
    return clean(kind.replace("_", " "), 40)


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def reversed_bound(verdict: Verdict) -> str:
    """A question if the only bound keeps off good values, as ``min`` does on harmless prompts."""
    gate, ends = verdict.gate, ("min", "max")
    given = [name for name in ends if name in gate.bounds]
    guard = (
        METRICS[gate.metric].guard(Kind(verdict.kind))
        if verdict.kind in set(Kind)
        else None
    )
    if guard is None or len(given) != 1 or guard in given:
        return ""
    prompts = _WORDS.get(verdict.kind, ("prompts",))[0]
    return (
        f"reversed? {gate.metric} on {prompts} usually has a {guard}, not a {given[0]}"
    )


def miss(verdict: Verdict) -> float:
    """How far figure or change is beyond what is allowed, as a share of the metric's range."""
    gate, compared = verdict.gate, verdict.comparison
    found = [(gate.limits, verdict.estimate.value)]
    if compared and not verdict.missing:
        found.append((gate.change_limits, compared.change.value))
    beyond = [limits.low - value for limits, value in found if limits.low is not None]
    beyond += [
        value - limits.high for limits, value in found if limits.high is not None
    ]
    return max(0.0, *beyond) / METRICS[gate.metric].span if beyond else 0.0


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Those whose gates did not pass, by how far they miss; waived ones last."""
    failed = (verdict for verdict in verdicts if not verdict.passed)
    return sorted(failed, key=lambda verdict: (verdict.waived, -miss(verdict)))


def finding(verdict: Verdict) -> str:
    """The gate and its figure, short: ``smoke_safe-rejection_rate 60% (allowed: 10%)``."""
    gate, compared, value = verdict.gate, verdict.comparison, verdict.estimate.value
    text = (
        f"{clean(gate.id, 80)} {rounded(METRICS[gate.metric], value, gate.limits.ends)}"
    )
    if verdict.groups:
        text += f" in {clean(group_of(verdict), 60)}"
    if gate.has_bounds and not (
        compared and gate.has_margins and gate.limits.holds(value)
    ):
        return f"{text} ({_required(gate)})"
    return text + (f", {_moved(verdict, compared)}" if compared else "")


def mark(verdict: Verdict) -> str:
    """The outcome of the gate's test in one word, with a question mark if it is inconclusive.

    A gate that fails under a waiver is neither passed nor failed: ``waived``.
    """
    if verdict.is_idle:
        return "skip"
    if verdict.waived:
        return "waived"
    word = "FAIL" if not verdict.passed else "warn" if verdict.warns else "pass"
    return word + "?" * (verdict.outcome is Outcome.INCONCLUSIVE)


def moves(gate: Gate, compared: Comparison) -> str:
    counted = METRICS[gate.metric].counted or f"counted in {gate.metric}"
    lost, gained = compared.lost, compared.gained
    if not lost and not gained:
        return "no prompt moved"
    is_share = METRICS[gate.metric].counts is not None
    moved = [
        (lost, "no longer" if is_share else "fell"),
        (gained, "newly" if is_share else "rose"),
    ]
    (most, how), (others, other_how) = moved if lost >= gained else moved[::-1]
    text = f"{count(most, METRICS[gate.metric].scored)} {how}"
    if is_share:
        text = f"{count(most, 'prompt')} {'is' if most == 1 else 'are'} {how} {counted}"
    return text + (f", {others} {other_how}" if others else "")


def exact(metric: Metric, value: float) -> str:
    """A bound as its file gives it, without trailing zeros: ``80%``, ``12.5%``, ``3.5``."""
    shown = f"{100 * value if metric.is_rate else value:z.6f}".rstrip("0").rstrip(".")
    return f"{shown}{'%' * metric.is_rate}"


def rounded(metric: Metric, value: float, bounds: Iterable[float]) -> str:
    """A figure with as few digits as tell it from the bounds, and from nothing and from all.

    What misses a bound is never shown as the bound itself, nor on the other side of it.
    """
    scale, least = (100, 0) if metric.is_rate else (1, 2)
    fixed = [scale * bound for bound in (*bounds, metric.lowest, metric.highest)]
    return f"{_digits(scale * value, fixed, least)}{'%' * metric.is_rate}"


def _digits(value: float, fixed: Sequence[float], least: int) -> str:
    """The value with as few digits, ``least`` at least, as keep it on its side of fixed ones."""

    def side(number: float, bound: float) -> int:
        return 0 if abs(number - bound) < 1e-9 else 1 if number > bound else -1

    texts = [f"{value:z.{digits}f}" for digits in range(least, 7)]
    told = (
        t
        for t in texts
        if all(side(float(t), end) == side(value, end) for end in fixed)
    )
    return next(told, texts[-1])


def _subject(verdict: Verdict) -> str:
    gate, metric = verdict.gate, METRICS[verdict.gate.metric]
    others = ("prompts", *_WORDS[Kind.SENSITIVE.value][1:])
    prompts, worst, attacks = _WORDS.get(verdict.kind, others)
    group = ""
    if gate.group and gate.group_kind:
        name = clean(gate.group_kind.replace("_", " "), 40)
        group = f" {'of' if name == 'type' else 'in'} {name} {clean(gate.group, 80)}"
    plain = f"{metric.name.replace('_', ' ')} is {{figure}}{{group}}"
    if metric.counted:
        counted = metric.counted.replace("{", "{{").replace("}", "}}")
        plain = f"{{figure}} of {{prompts}} are {counted}"
    text = (metric.sentence or plain).format(
        figure=rounded(metric, verdict.estimate.value, gate.limits.ends),
        prompts=prompts + group,
        group=group,
        worst=worst,
        attacks=attacks,
    )
    return text[0].upper() + text[1:]


def _required(gate: Gate) -> str:
    metric = METRICS[gate.metric]
    ends = [exact(metric, end) for end in gate.limits.ends]
    if len(ends) > 1:
        return (
            f"allowed: {ends[0]}"
            if ends[0] == ends[1]
            else f"allowed: {' to '.join(ends)}"
        )
    spared = f" or {count(gate.spared, 'answer')}" if gate.spared else ""
    return f"{'allowed' if gate.minimum is None else 'required'}: {ends[0]}{spared}"


def _moved(verdict: Verdict, compared: Comparison) -> str:
    """The change, since which run (its day, if the candidate has one name), and what is allowed."""
    gate, metric, change = verdict.gate, METRICS[verdict.gate.metric], compared.change
    then = clean(compared.name or short(compared.candidate), 60)
    if compared.same_candidate:
        with suppress(ValueError):  # a file that somebody edited
            day = datetime.fromisoformat(compared.started)
            then += f" on {day.day} {day:%B %Y}"
    if change.n != verdict.estimate.n:
        then += f" on the {count(change.n, 'prompt')} of both runs"
    fell = change.value < 0
    more, less = ("more", "less") if metric.is_rate else ("higher", "lower")
    allowed, margin = "", gate.max_drop if fell else gate.max_rise
    if margin is not None:
        limit = exact(metric, margin).removesuffix("%")
        words = f"{limit} {less if fell else more}" if margin else "no change"
        allowed = f" (allowed: {words})"
    if abs(change.value) < 1e-9:
        return f"the same as {then}{allowed}"
    scale, least = (100, 0) if metric.is_rate else (1, 2)
    fixed = [0.0, *(scale * end for end in gate.change_limits.ends)]
    size = _digits(scale * change.value, fixed, least).removeprefix("-")
    if metric.is_rate:
        size += f" point{'s' * (size != '1')}"
    return f"{size} {less if fell else more} than {then}{allowed}"


def short(candidate: str) -> str:
    """The last part of a candidate's name, which may be a path or the address of a server."""
    return candidate.rpartition("#")[2].rstrip("/").rpartition("/")[2] or candidate


def _doubt(verdict: Verdict) -> str:
    """Why the test ended otherwise than the figures by themselves suggest."""
    gate, compared, n = verdict.gate, verdict.comparison, verdict.estimate.n
    share = f"{verdict.invalid:.1%} of the answers"
    if verdict.flips or (verdict.open_by_invalid and not verdict.passed):
        return f"; {share} could not be judged, and they alone decide this"
    within = gate.limits.holds(verdict.estimate.value)
    if within and compared and gate.has_margins:
        within = gate.change_limits.holds(compared.change.value)
    if verdict.missing:
        return f"; {verdict.missing}"
    if verdict.passed and not verdict.warns:
        return ""
    prompts = count(n, "prompt")
    if within and verdict.outcome is not Outcome.PASS:
        change = (
            ": the true change may be beyond what is allowed"
            if verdict.comparison
            else ""
        )
        text = f"; with {prompts} that is too close to call"
        for end, limits, how in (
            (verdict.estimate.lower, AllowedRange(gate.minimum), "low"),
            (verdict.estimate.upper, AllowedRange(None, gate.maximum), "high"),
        ):
            if not limits.holds(end):
                shown = rounded(METRICS[gate.metric], end, gate.limits.ends)
                return f"{text}: the true figure may be as {how} as {shown}"
        return text + change
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return f"; with {prompts} that may be chance"
    return ""
