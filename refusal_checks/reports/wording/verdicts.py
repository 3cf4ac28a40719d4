"""A verdict in words: one sentence for people who decide, then reasons and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.gates.bounds import (
    PROMPTS,
    exact,
    margins_in_words,
    requirement,
    reversed_bound,
)
from refusal_checks.gates.comparison import Comparison, most_changed
from refusal_checks.gates.gate import AllowedRange, Gate, Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.metrics.statistics.intervals import Estimate

_WORST = {
    Kind.SAFETY.value: "every time",
    Kind.SANITY.value: "at least once",
}
"""How often the worst answers to a prompt refuse, by the benchmark's kind."""

MOST_GROUPS = 3
"""Groups that a sentence names."""

MOST_LISTED = 12
"""Groups whose figures are listed; the page has a table of all."""


def sentence(verdict: Verdict) -> str:
    """Say in one safe sentence what was found, what is allowed, and how the last release did.

    It names the group but not the benchmark, and gives an interval only where one decides. For
    example: "Refuses 60% of harmless prompts (allowed: 10%), 51 points more than release-1.3."
    """
    if verdict.groups:
        of_worst = sentence(verdict.groups[0]).removesuffix(".")
        return f"{of_worst}, {_of_every_group(verdict)}."
    gate, comparison = verdict.gate, verdict.comparison
    text = _subject(verdict)
    if gate.has_bounds:
        required = _required(gate)
        hint = reversed_bound(verdict)
        if hint:
            required += f"; {hint}"
        text += f" ({required})"
    if comparison:
        text += f", {_moved(verdict, comparison)}"
        text += carried(verdict, comparison)
    if verdict.skipped:
        text += "; without a baseline its change was not checked"
    return f"{text}{_doubt(verdict)}."


def carried(verdict: Verdict, comparison: Comparison) -> str:
    """Name the groups that account for a change beyond its margin; empty if none certainly does."""
    gate = verdict.gate
    if verdict.passed or not gate.has_margins:
        return ""
    outcome = gate.change_limits.outcome(comparison.lower, comparison.upper)
    if outcome is Outcome.PASS:
        return ""
    sign = -1 if comparison.change.value < 0 else 1
    ranked = most_changed(comparison.groups, sign)
    groups = [group for group in ranked if group.is_certain(sign)]
    if not groups:
        return ""
    kind = _kind(groups[0].kind)
    if len(groups) == len(ranked):
        return f"; in every {kind}"
    named = []
    for group in groups:
        moved = group.lost if sign < 0 else group.gained
        prompts = count(group.change.n, "prompt")
        named.append(f"{clean(group.group, 60)} ({moved} of {prompts})")
    return f"; carried by {kind} {_first_listed(named)}"


def group_of(verdict: Verdict) -> str:
    """The group of the figure, the worst one for a gate on every group; usually empty."""
    gate = verdict.groups[0].gate if verdict.groups else verdict.gate
    return gate.group or ""


def _of_every_group(verdict: Verdict) -> str:
    """Say of how many groups the named one is the worst, and which others fail."""
    gate, (worst, *others) = verdict.gate, verdict.groups
    place = "nearest to its bound" if worst.passed else "worst"
    groups = count(len(verdict.groups), "group")
    text = f"the {place} of {groups} by {_kind(gate.group_kind or '')}"
    failed = [other for other in others if not other.passed]
    if not failed:
        return text
    metric = METRICS[gate.metric]
    named = []
    for other in failed:
        value = other.estimate.value
        figure = rounded(metric, value, gate.limits.ends)
        if other.comparison and gate.limits.holds(value):
            figure = metric.show_change(other.comparison.change.value)
        named.append(f"{clean(other.gate.group or '', 60)} ({figure})")
    verb = "fails" if len(failed) == 1 else "fail"
    return f"{text}; {_first_listed(named)} {verb} too"


def _kind(kind: str) -> str:
    return clean(kind.replace("_", " "), 40)


def _first_listed(names: Sequence[str]) -> str:
    """List the first names, and say how many more there are."""
    shown = list(names[:MOST_GROUPS])
    if len(names) > MOST_GROUPS:
        shown.append(f"{len(names) - MOST_GROUPS} more")
    *first, last = shown
    if not first:
        return last
    return f"{', '.join(first)} and {last}"


def miss(verdict: Verdict) -> float:
    """How far the figure or change is beyond what is allowed, as a share of the metric's range."""
    gate, comparison = verdict.gate, verdict.comparison
    room = gate.limits.room(verdict.estimate.value)
    if comparison:
        room = min(room, gate.change_limits.room(comparison.change.value))
    return max(0.0, -room) / METRICS[gate.metric].span


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Verdicts that did not pass, the largest miss first; waived ones last."""
    failed = (verdict for verdict in verdicts if not verdict.passed)
    return sorted(failed, key=lambda verdict: (verdict.waived, -miss(verdict)))


def finding(verdict: Verdict) -> str:
    """Name the gate and its figure: ``smoke_safe-rejection_rate 60% (allowed: 10%)``."""
    gate, comparison = verdict.gate, verdict.comparison
    metric, value = METRICS[gate.metric], verdict.estimate.value
    text = f"{clean(gate.id, 80)} {rounded(metric, value, gate.limits.ends)}"
    if verdict.groups:
        text += f" in {clean(group_of(verdict), 60)}"
    is_by_change = comparison and gate.has_margins and gate.limits.holds(value)
    if gate.has_bounds and not is_by_change:
        return f"{text} ({_required(gate)})"
    if comparison:
        text += f", {_moved(verdict, comparison)}"
    return text


def mark(verdict: Verdict) -> str:
    """Return the outcome of the gate's test in one word, with ``?`` if it is inconclusive.

    A gate that fails under a waiver is ``waived``.
    """
    if verdict.is_idle:
        return "skip"
    if verdict.waived:
        return "waived"
    word = "pass"
    if not verdict.passed:
        word = "FAIL"
    elif verdict.warns:
        word = "warn"
    return f"{word}?" if verdict.outcome is Outcome.INCONCLUSIVE else word


def moves(gate: Gate, comparison: Comparison) -> str:
    """Say how many prompts moved each way, the more frequent way first."""
    metric = METRICS[gate.metric]
    lost, gained = comparison.lost, comparison.gained
    if not lost and not gained:
        return "no prompt moved"
    fell, rose = ("no longer", "newly") if comparison.of_prompts else ("fell", "rose")
    first, second = (lost, fell), (gained, rose)
    if gained > lost:
        first, second = second, first

    most, way = first
    if comparison.of_prompts:
        verb = "is" if most == 1 else "are"
        counted = metric.counted or f"counted in {gate.metric}"
        text = f"{count(most, 'prompt')} {verb} {way} {counted}"
    else:
        text = f"{count(most, metric.scored)} {way}"
    others, other_way = second
    if others:
        text += f", {others} {other_way}"
    return text


def rounded(metric: Metric, value: float, bounds: Iterable[float]) -> str:
    """Round a figure, with enough digits to tell it from the bounds and from 0% and 100%.

    A figure that misses a bound never appears as the bound itself, nor on its other side.
    """
    fixed = [*bounds, metric.lowest, metric.highest]
    if metric.is_rate:
        return f"{_digits(100 * value, [100 * bound for bound in fixed], 0)}%"
    return _digits(value, fixed, 2)


def _digits(value: float, fixed: Sequence[float], least: int) -> str:
    """Format a value with the fewest digits, from ``least``, that keep it on its side of others."""
    sides = [_side(value, bound) for bound in fixed]
    text = ""
    for digits in range(least, 7):
        text = f"{value:z.{digits}f}"
        if [_side(float(text), bound) for bound in fixed] == sides:
            break
    return text


def _side(number: float, bound: float) -> int:
    """-1 if a number is below a bound, 1 if above it, 0 if equal up to rounding."""
    if abs(number - bound) < 1e-9:
        return 0
    return 1 if number > bound else -1


def _subject(verdict: Verdict) -> str:
    gate, metric = verdict.gate, METRICS[verdict.gate.metric]
    prompts = PROMPTS.get(verdict.kind, "prompts")
    worst = _WORST.get(verdict.kind, "by its worst answer")
    group = ""
    if gate.group and gate.group_kind:
        kind = _kind(gate.group_kind)
        preposition = "of" if kind == "type" else "in"
        group = f" {preposition} {kind} {clean(gate.group, 80)}"
    form = metric.sentence
    if not form and metric.counted:
        counted = metric.counted.replace("{", "{{").replace("}", "}}")
        form = f"{{figure}} of {{prompts}} are {counted}"
    elif not form:
        form = f"{metric.name.replace('_', ' ')} is {{figure}}{{group}}"
    text = form.format(
        figure=rounded(metric, verdict.estimate.value, gate.limits.ends),
        prompts=prompts + group,
        group=group,
        worst=worst,
    )
    return text[0].upper() + text[1:]


def _required(gate: Gate) -> str:
    metric = METRICS[gate.metric]
    ends = list(dict.fromkeys(exact(metric, end) for end in gate.limits.ends))
    if gate.minimum is None:
        return f"allowed: {ends[0]}"
    if gate.maximum is None:
        return f"required: {ends[0]}"
    return f"allowed: {' to '.join(ends)}"


def _moved(verdict: Verdict, comparison: Comparison) -> str:
    """Say the change, since which run (by day, if names are equal), and what is allowed."""
    gate, metric, change = verdict.gate, METRICS[verdict.gate.metric], comparison.change
    earlier = clean(comparison.name or short(comparison.candidate), 60)
    if comparison.same_candidate:
        with suppress(ValueError):  # a file that somebody edited
            day = datetime.fromisoformat(comparison.started)
            earlier += f" on {day.day} {day:%B %Y}"
    if change.n != verdict.estimate.n:
        earlier += f" on the {count(change.n, 'prompt')} of both runs"
    more, less = ("more", "less") if metric.is_rate else ("higher", "lower")
    direction, margin = more, gate.max_rise
    if change.value < 0:
        direction, margin = less, gate.max_drop
    allowed = ""
    if margin == 0:
        allowed = " (allowed: no change)"
    elif margin is not None:
        limit = exact(metric, margin).removesuffix("%")
        allowed = f" (allowed: {limit} {direction})"
    if abs(change.value) < 1e-9:
        return f"the same as {earlier}{allowed}"
    ends = gate.change_limits.ends
    if metric.is_rate:
        fixed = [0.0, *(100 * end for end in ends)]
        size = _digits(100 * change.value, fixed, 0).removeprefix("-")
        size += " point" if size == "1" else " points"
    else:
        size = _digits(change.value, [0.0, *ends], 2).removeprefix("-")
    return f"{size} {direction} than {earlier}{allowed}"


def short(candidate: str) -> str:
    """The last part of a candidate's name, which may be a path or a server's URL."""
    name = candidate.rpartition("#")[2].rstrip("/").rpartition("/")[2]
    return name or candidate


def _doubt(verdict: Verdict) -> str:
    """Say why the test's result differs from what the figures suggest."""
    invalid = verdict.invalid
    if invalid.decide or (invalid.leave_open and not verdict.passed):
        share = f"{invalid.share:.1%} of the answers"
        return f"; {share} could not be judged, and they alone decide this"
    if verdict.passed and not verdict.warns:
        return ""
    gate, comparison = verdict.gate, verdict.comparison
    is_within = gate.limits.holds(verdict.estimate.value)
    if is_within and comparison and gate.has_margins:
        is_within = gate.change_limits.holds(comparison.change.value)
    if is_within and verdict.outcome is not Outcome.PASS:
        return _too_close(verdict)
    if verdict.outcome is not Outcome.INCONCLUSIVE:
        return ""
    what = "that"
    if comparison:  # the sentence has told a change as well, which may be certain
        misses = not gate.limits.holds(verdict.estimate.value)
        what = "the miss" if misses else "the change"
    return f"; with {count(verdict.estimate.n, 'prompt')} {what} may be chance"


def _too_close(verdict: Verdict) -> str:
    """Say why a gate is in doubt although figure and change are within what is allowed."""
    gate, estimate = verdict.gate, verdict.estimate
    text = f"; with {count(estimate.n, 'prompt')} that is too close to call"
    end = None
    if not AllowedRange(gate.minimum, None).holds(estimate.lower):
        end, how = estimate.lower, "low"
    elif not AllowedRange(None, gate.maximum).holds(estimate.upper):
        end, how = estimate.upper, "high"
    if end is not None:
        shown = rounded(METRICS[gate.metric], end, gate.limits.ends)
        return f"{text}: the true figure may be as {how} as {shown}"
    if verdict.comparison:
        return f"{text}: the true change may be beyond what is allowed"
    return text


def headline(verdict: Verdict) -> str:
    """The figure with its interval, and what it must be."""
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    subject = clean(f"{gate.benchmark} {group_of(verdict)}", 120)
    if verdict.groups:
        subject += f" (of {count(len(verdict.groups), 'group')})"
    shown = f"{_figure(gate, estimate)}, n = {estimate.n}"
    required = f"must be {requirement(gate)}"
    if compared and gate.has_margins and gate.limits.holds(estimate.value):
        change = METRICS[gate.metric].show_change(compared.change.value)
        required = f"{change} against the baseline; must be {margins_in_words(gate)}"
    return f"{subject}: {gate.metric} {shown}; {required}"


def _figure(gate: Gate, estimate: Estimate) -> str:
    return f"{gate.show(estimate.value)} {gate.interval(estimate)}"


def reasons(verdict: Verdict) -> list[str]:
    """What to know at once about a gate, without statistics; its sentence comes first."""
    gate, compared = verdict.gate, verdict.comparison
    texts = [sentence(verdict), *waiver(verdict)]
    if verdict.against.missed_by:
        missed = f"{verdict.against.missed_by} of {verdict.estimate.n} prompts"
        texts.append(f"{missed} must change for a pass")
    if verdict.outcome is Outcome.INCONCLUSIVE:
        texts.append(what_decides(verdict))
    if verdict.invalid.decide:
        texts.append(
            f"look at the invalid answers first: they alone decide this gate{_extremes(verdict)}"
        )
    if compared and _is_news(verdict, compared):
        texts.append(moves(gate, compared))
    return texts


def details(verdict: Verdict) -> list[str]:
    """The statistics behind a verdict, and what it was compared with."""
    gate, compared, texts = verdict.gate, verdict.comparison, []
    level = f"at {100 * verdict.level:.4g}% confidence"
    if verdict.outcome is Outcome.INCONCLUSIVE:
        texts.append(f"inconclusive {level}: {_why_open(verdict)}")
    elif not verdict.passed:
        texts.append(f"fails {level}")
    if gate.provenance:
        texts.append(f"why this gate: {clean(gate.provenance)}")
    if verdict.invalid.share:
        extremes = "" if verdict.invalid.decide else _extremes(verdict)
        share = f"{verdict.invalid.share:.1%} of {verdict.answers} answers"
        texts.append(f"invalid: {share} have no verdict{extremes}")
    if verdict.groups:
        texts.append(_by_group(verdict))
    if compared:
        name = f"{clean(compared.candidate, 60)} of {clean(compared.started, 30)}"
        texts.append(f"compared with {name}")
        for difference in compared.differences:
            texts.append(f"not comparable: {clean(difference)}")
        if _is_news(verdict, compared):
            texts += _interval_of_change(verdict, compared)
    return texts


def doubt(verdict: Verdict) -> str:
    """One line on an inconclusive gate."""
    return f"{headline(verdict)}; {_why_open(verdict)}; {what_decides(verdict)}"


def waiver(verdict: Verdict) -> list[str]:
    """Until when the gate may fail, or what to do about its waiver; empty without one."""
    given = verdict.gate.waiver
    if given is None or verdict.is_idle:
        return []
    who, where = clean(given.by, 60), clean(given.source, 200)
    if verdict.waived:
        return [f"waived until {given.until} by {who}: {clean(given.reason)}"]
    if not verdict.passed:
        ended = f"it ended on {given.until} (by {who})"
        return [f"fix the model, or renew the waiver in {where}: {ended}"]
    which = f"the waiver until {given.until} by {who}"
    return [f"remove {which} from {where}: the gate passes without it"]


def _by_group(verdict: Verdict) -> str:
    gate = verdict.gate
    parts = []
    for group in verdict.groups[:MOST_LISTED]:
        name = f"{clean(group.gate.group or '', 60)} {mark(group)}"
        text = f"{name} {_figure(gate, group.estimate)}, n = {group.estimate.n}"
        if group.comparison and gate.has_margins:
            text += f", change {_span(gate, group.comparison.change)}"
        parts.append(text)
    if len(verdict.groups) > MOST_LISTED:
        parts.append(f"and {len(verdict.groups) - MOST_LISTED} more")
    return f"by {_kind(gate.group_kind or '')}: {'; '.join(parts)}"


def _extremes(verdict: Verdict) -> str:
    """What the figure could be with the invalid answers, in brackets; empty if the same."""
    low, high = verdict.bounds
    if low == high:
        return ""
    show = verdict.gate.show
    ways = [
        f"{show(value)} if counted as {name}"
        for name, value in verdict.invalid.extremes
    ]
    return f" ({', '.join(ways) or f'{show(low)} to {show(high)}'})"


def _is_news(verdict: Verdict, compared: Comparison) -> bool:
    """True if a margin is set or a prompt moved."""
    return bool(verdict.gate.has_margins or compared.lost or compared.gained)


def _interval_of_change(verdict: Verdict, compared: Comparison) -> Iterator[str]:
    """The change with its interval, what the margins allow, and what is left out."""
    gate = verdict.gate
    show = METRICS[gate.metric].show_change
    parts = [f"change {_span(gate, compared.change)}, n = {compared.change.n}"]
    bound = f"(one-sided {100 * verdict.level:.4g}% bound)"
    low, high = gate.change_limits.low, gate.change_limits.high
    if low is not None:
        least = f"at least {show(compared.lower)} {bound}"
        parts.append(f"{least}, max_drop allows {show(low)}")
    if high is not None:
        most = f"at most {show(compared.upper)} {bound}"
        parts.append(f"{most}, max_rise allows {show(high)}")
    yield "; ".join(parts)
    left_out = [
        f"{count(prompts, 'prompt')} {reason}"
        for reason, prompts in (
            ("only in this run", compared.only_now),
            ("only in the baseline", compared.only_then),
            ("with another wording", compared.reworded),
            ("without a verdict in one of the runs", compared.unscored),
        )
        if prompts
    ]
    if left_out:
        yield f"not compared: {', '.join(left_out)}"


def _span(gate: Gate, change: Estimate) -> str:
    return METRICS[gate.metric].show_change(change.value, change.lower, change.upper)


def _why_open(verdict: Verdict) -> str:
    """Say which interval contains which threshold or margin."""
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
    return "its figure rests on too little for a pass"


def _worst_cases(verdict: Verdict) -> Iterator[str]:
    gate, compared, worst = verdict.gate, verdict.comparison, verdict.invalid.worst
    if worst and gate.limits.outcome(*worst) is not Outcome.PASS:
        low, high = (gate.show(end) for end in worst)
        yield f"with the invalid ones counted one way or the other the interval is [{low}, {high}]"
    worst = compared.worst if compared else None
    if compared and worst and gate.change_limits.outcome(*worst) is not Outcome.PASS:
        low, high = (METRICS[gate.metric].show_change(end) for end in worst)
        prompts = count(compared.doubtful, "prompt")
        yield f"the change of {prompts} with invalid answers leaves bounds of {low} and {high}"


def what_decides(verdict: Verdict) -> str:
    """Say what would decide an inconclusive gate: more prompts, or verdicts."""
    if verdict.invalid.leave_open:
        return "verdicts on the invalid answers would decide it"
    needed = verdict.prompts_needed
    if needed is None:
        return "more prompts may decide it"
    more = max(0, needed - verdict.estimate.n)
    return (
        f"{needed} prompts ({more} more) would decide it 4 times in 5, if this is the true "
        "figure"
    )
