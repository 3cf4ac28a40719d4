"""A verdict in words: one sentence for people who decide, then reasons and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import count, sanitize
from refusal_checks.gates.comparison import Comparison, rank_changes
from refusal_checks.gates.gate import Gate, Outcome
from refusal_checks.gates.requirements import (
    PROMPTS,
    describe_bound,
    describe_bounds,
    describe_margins,
    reversal_hint,
)
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric

_WORST = {
    Kind.SAFETY.value: "every time",
    Kind.SANITY.value: "at least once",
}
"""How often the worst answers to a prompt refuse, by the benchmark's kind."""

MEASURED = "-"
"""The mark of a figure without a bound."""

MOST_GROUPS = 3
"""Groups that a sentence names."""


def sentence(verdict: Verdict) -> str:
    """Say in one safe sentence what was found, what is allowed, and how the last release did.

    It names the group but not the benchmark, and gives no interval. For example: "Refuses 60% of
    harmless prompts (max 10%), 51 points more than release-1.3."
    """
    # A figure of one group would read as the benchmark's without the others.
    if verdict.groups:
        of_worst = sentence(verdict.groups[0]).removesuffix(".")
        return f"{of_worst}, {_rank_clause(verdict)}."
    gate, comparison = verdict.gate, verdict.comparison
    text = _subject(verdict)
    if gate.has_bounds:
        hint = reversal_hint(verdict)
        text += f" ({describe_bounds(gate)}{f'; {hint}' if hint else ''})"
    if comparison:
        text += f", {_change_clause(verdict, comparison)}{_groups_clause(verdict, comparison)}"
    return f"{text}{_inconclusive_clause(verdict)}."


def _subject(verdict: Verdict) -> str:
    gate, metric = verdict.gate, METRICS[verdict.gate.metric]
    group = ""
    if gate.group and gate.group_kind:
        preposition = "of" if gate.group_kind == "type" else "in"
        group = f" {preposition} {_kind(gate)} {sanitize(gate.group, 80)}"
    form = metric.sentence or f"{metric.name.replace('_', ' ')} is {{figure}}{{group}}"
    text = form.format(
        figure=round_figure(metric, verdict.estimate.value, gate.limits.ends),
        prompts=PROMPTS.get(verdict.kind, "prompts") + group,
        group=group,
        worst=_WORST.get(verdict.kind, "by its worst answer"),
    )
    return text[0].upper() + text[1:]


def _kind(gate: Gate) -> str:
    return sanitize((gate.group_kind or "").replace("_", " "), 40)


def _change_clause(verdict: Verdict, comparison: Comparison) -> str:
    """Say what changed since which run (with its day if the names are equal), and the margin."""
    gate, metric, change = verdict.gate, METRICS[verdict.gate.metric], comparison.change
    earlier = earlier_name(comparison)
    if comparison.same_candidate:
        earlier += f" of {sanitize(comparison.started[:10], 30)}"
    # The change is that of the shared prompts, and need not be the difference of both figures.
    if change.n != verdict.estimate.n:
        earlier += f" on the {count(change.n, 'prompt')} of both runs"
    more, less = ("more", "less") if metric.is_rate else ("higher", "lower")
    direction, margin = (more, "max_rise")
    if change.value < 0:
        direction, margin = (less, "max_drop")
    allowed = ""
    if margin in gate.bounds:
        allowed = f" ({describe_bound(gate, margin)})"
    if abs(change.value) < 1e-9:  # "0 points more" is no direction
        return f"the same as {earlier}{allowed}"
    ends = gate.change_limits.ends
    size = _shortest(metric, change.value, [0.0, *ends]).removeprefix("-")
    if metric.is_rate:
        size += " point" if size == "1" else " points"
    return f"{size} {direction} than {earlier}{allowed}"


def earlier_name(comparison: Comparison) -> str:
    """The earlier candidate, without the folder or server that its name may begin with."""
    candidate = comparison.candidate
    last = candidate.rpartition("#")[2].rstrip("/").rpartition("/")[2]
    return sanitize(comparison.name or last or candidate, 60)


def _groups_clause(verdict: Verdict, comparison: Comparison) -> str:
    """Name the groups that clearly account for a change beyond its margin; may be empty."""
    limits = verdict.gate.change_limits
    is_within = limits.outcome(comparison.lower, comparison.upper) is Outcome.PASS
    if verdict.passed or is_within:
        return ""
    sign = -1 if comparison.change.value < 0 else 1
    ranked = rank_changes(comparison.groups, sign)
    groups = [group for group in ranked if group.is_certain(sign)]
    if not groups:
        return ""
    kind = sanitize(groups[0].kind.replace("_", " "), 40)
    if len(groups) == len(ranked):
        return f"; in every {kind}"
    named = []
    for group in groups:
        moved = group.lost if sign < 0 else group.gained
        prompts = count(group.change.n, "prompt")
        named.append(f"{sanitize(group.group, 60)} ({moved} of {prompts})")
    return f"; most in {kind} {_list_first(named)}"


def _rank_clause(verdict: Verdict) -> str:
    """Say that the named group is the worst of so many, and which others fail."""
    gate, (worst, *others) = verdict.gate, verdict.groups
    place = "nearest to its bound" if worst.passed else "worst"
    groups = count(len(verdict.groups), "group")
    text = f"the {place} of {groups} by {_kind(gate)}"
    failed = [
        sanitize(other.gate.group or "", 60) for other in others if not other.passed
    ]
    if not failed:
        return text
    verb = "fails" if len(failed) == 1 else "fail"
    return f"{text}; {_list_first(failed)} {verb} too"


def _list_first(names: Sequence[str]) -> str:
    """List the first names, and say how many more there are."""
    shown = list(names[:MOST_GROUPS])
    if len(names) > MOST_GROUPS:
        shown.append(f"{len(names) - MOST_GROUPS} more")
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last


def _inconclusive_clause(verdict: Verdict) -> str:
    """Say why the test's result differs from what the figures suggest."""
    invalid = verdict.invalid
    # Said before chance: more prompts would not help while these answers have no verdict.
    if invalid.decide or (invalid.leave_open and not verdict.passed):
        share = f"{invalid.share:.1%} of the answers"
        return f"; {share} could not be judged, and they alone decide this"
    is_certain = verdict.outcome is not Outcome.INCONCLUSIVE
    if is_certain or (verdict.passed and not verdict.warns):
        return ""
    missed = "the miss may be due to chance"
    what = missed if _miss(verdict) else "that is too close to call"
    return f"; with {count(verdict.estimate.n, 'prompt')} {what}"


def round_figure(metric: Metric, value: float, bounds: Iterable[float]) -> str:
    """Round a figure, with enough digits to tell it from the bounds and from 0% and 100%.

    A figure that misses a bound never appears as the bound itself, nor on its other side.
    """
    # 79.6% that misses 80% must not read "80% (min 80%)", nor 99.8% as "100%".
    text = _shortest(metric, value, [*bounds, metric.lowest, metric.highest])
    return f"{text}%" if metric.is_rate else text


def _shortest(metric: Metric, value: float, others: Sequence[float]) -> str:
    """Format a value with the fewest digits that keep it on its side of others; a rate in %."""
    scale, least = (100, 0) if metric.is_rate else (1, 2)
    sides = [_side(value, other) for other in others]
    text = ""
    for digits in range(least, 7):  # the bound itself is shown with up to six
        text = f"{scale * value:z.{digits}f}"
        if [_side(float(text) / scale, other) for other in others] == sides:
            break
    return text


def _side(number: float, bound: float) -> int:
    """-1 if a number is below a bound, 1 if above it, 0 if equal up to rounding."""
    if abs(number - bound) < 1e-10:
        return 0
    return 1 if number > bound else -1


def worst_group(verdict: Verdict) -> str:
    """The group of the figure, the worst one for a gate on every group; usually empty."""
    gate = verdict.groups[0].gate if verdict.groups else verdict.gate
    return gate.group or ""


def finding(verdict: Verdict) -> str:
    """Name the gate and its figure: ``smoke_safe-rejection_rate 60% (max 10%)``."""
    gate, comparison = verdict.gate, verdict.comparison
    value = verdict.estimate.value
    figure = round_figure(METRICS[gate.metric], value, gate.limits.ends)
    text = f"{sanitize(gate.id, 80)} {figure}"
    if verdict.groups:
        text += f" in {sanitize(worst_group(verdict), 60)}"
    # What failed it: the change, if the figure itself is within its bounds.
    if comparison and gate.has_margins and gate.limits.holds(value):
        text += f", {_change_clause(verdict, comparison)}"
    elif gate.has_bounds:
        text += f" ({describe_bounds(gate)})"
    return text if _miss(verdict) else f"{text}{_inconclusive_clause(verdict)}"


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Verdicts that did not pass, the largest miss first; waived ones last."""
    failed = (verdict for verdict in verdicts if not verdict.passed)
    return sorted(failed, key=lambda verdict: (verdict.waived, -_miss(verdict)))


def _miss(verdict: Verdict) -> float:
    """How far the figure or change is beyond what is allowed, as a share of the metric's range."""
    gate, comparison = verdict.gate, verdict.comparison
    room = gate.limits.room(verdict.estimate.value)
    if comparison:
        room = min(room, gate.change_limits.room(comparison.change.value))
    # As a share of the range, so that rates and ratings of 0 to 5 can be sorted together.
    return max(0.0, round(-room, 9)) / METRICS[gate.metric].span


def mark(verdict: Verdict) -> str:
    """Return the outcome of the gate's test in one word, with ``?`` if it is inconclusive.

    A gate that fails under a waiver is ``waived``; one without any bound only measures.
    """
    if not verdict.gate.bounds:
        return MEASURED
    if (
        verdict.is_idle
    ):  # it only asked for a change, and there is nothing to compare with
        return "skip"
    if verdict.waived:
        return "waived"
    word = "pass"
    if not verdict.passed:
        word = "FAIL"
    elif verdict.warns:
        word = "warn"
    return f"{word}?" if verdict.outcome is Outcome.INCONCLUSIVE else word


def line(verdict: Verdict) -> str:
    """The sentence with the benchmark; a waiver comes first."""
    text = f"{sanitize(verdict.gate.benchmark, 60)}: {sentence(verdict)}"
    return "; ".join([*waiver(verdict), text]) if verdict.waived else text


def reasons(verdict: Verdict) -> list[str]:
    """The gate's sentence, then what else to know first, without statistics."""
    compared, texts = verdict.comparison, [sentence(verdict), *waiver(verdict)]
    if verdict.violations.missed_by:
        missed = f"{verdict.violations.missed_by} of {verdict.estimate.n} prompts"
        texts.append(f"{missed} must change for a pass")
    if verdict.invalid.decide or verdict.invalid.leave_open:
        texts.append(
            f"look at the invalid answers first: they decide this gate{_extremes(verdict)}"
        )
    elif verdict.outcome is Outcome.INCONCLUSIVE:
        texts.append(prompts_to_decide(verdict))
    if compared and (compared.lost or compared.gained):
        texts.append(f"since the baseline: {moves(verdict.gate, compared)}")
    return texts


def prompts_to_decide(verdict: Verdict) -> str:
    """Say how many prompts would decide an inconclusive gate."""
    needed = verdict.prompts_needed
    if needed is None:
        return "more prompts may decide it"
    more = max(0, needed - verdict.estimate.n)
    return f"{needed} prompts ({more} more) would probably decide it"


def moves(gate: Gate, comparison: Comparison) -> str:
    """Say how many prompts moved each way, the more frequent way first."""
    down, up = directions(gate, comparison)
    ways = [(comparison.lost, down), (comparison.gained, up)]
    if comparison.gained > comparison.lost:
        ways.reverse()
    moved = [f"{count(number, 'prompt')} {way}" for number, way in ways if number]
    return ", ".join(moved) or "no prompt moved"


def directions(gate: Gate, comparison: Comparison) -> tuple[str, str]:
    """Describe the prompts whose scores fell, and those whose scores rose."""
    metric = METRICS[gate.metric]
    if comparison.of_prompts:
        counted = metric.counted or f"counted in {metric.name}"
        return f"no longer {counted}", f"newly {counted}"
    return f"whose {metric.scored} fell", f"whose {metric.scored} rose"


def waiver(verdict: Verdict) -> list[str]:
    """Say how long the gate may fail, or what to do about its waiver; empty without one."""
    given = verdict.gate.waiver
    if given is None or verdict.is_idle:
        return []
    who, where = sanitize(given.by, 60), sanitize(given.source, 200)
    if verdict.waived:
        return [f"waived until {given.until} by {who}: {sanitize(given.reason)}"]
    if not verdict.passed:
        ended = f"it ended on {given.until} (by {who})"
        return [f"fix the model, or renew the waiver in {where}: {ended}"]
    which = f"the waiver until {given.until} by {who}"
    return [f"remove {which} from {where}: the gate passes without it"]


def figure(verdict: Verdict) -> str:
    """The figure with its interval, and what it must be."""
    gate, estimate = verdict.gate, verdict.estimate
    interval = f"{100 * verdict.level:.4g}% interval {gate.interval(estimate)}"
    shown = f"{gate.metric} {gate.show(estimate.value)}, {interval}, n = {estimate.n}"
    required = describe_bounds(gate)
    return f"{shown}; {required}" if required else shown


def details(verdict: Verdict) -> list[str]:
    """The statistics behind a verdict, and what it was compared with."""
    gate, compared, texts = verdict.gate, verdict.comparison, []
    if gate.provenance:
        texts.append(f"why this gate: {sanitize(gate.provenance)}")
    if verdict.invalid.share and not verdict.invalid.decide:
        share = f"{verdict.invalid.share:.1%} of {verdict.answers} answers"
        texts.append(f"{share} have no verdict{_extremes(verdict)}")
    if compared:
        texts += (f"not comparable: {sanitize(why)}" for why in compared.differences)
        texts.append(_change(verdict, compared))
    return texts


def _extremes(verdict: Verdict) -> str:
    """The figures if invalid answers counted each way, in brackets; empty if they are equal."""
    ways = [
        f"{verdict.gate.show(value)} if counted as {name}"
        for name, value in verdict.invalid.extremes
    ]
    low, high = verdict.bounds
    return f" ({', '.join(ways)})" if low < high else ""


def _change(verdict: Verdict, compared: Comparison) -> str:
    """The change with its interval, and the one-sided bounds that decide margins."""
    gate, change = verdict.gate, compared.change
    show = METRICS[gate.metric].show_change
    since = (
        f"{sanitize(compared.candidate, 60)} of {sanitize(compared.started[:10], 30)}"
    )
    span = show(change.value, change.lower, change.upper)
    parts = [f"change since {since}: {span}, n = {change.n}"]
    # The two-sided interval above is not what decides a margin.
    if gate.has_margins:
        ends = f"{show(compared.lower)} and {show(compared.upper)}"
        level = f"one-sided {100 * verdict.level:.4g}% bounds"
        parts.append(f"{level} {ends}; {describe_margins(gate)}")
    return "; ".join(parts)
