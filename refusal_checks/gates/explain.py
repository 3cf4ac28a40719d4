"""A verdict in one sentence, for people who decide and do not read statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.gates.compare import Comparison
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import AllowedRange, Gate, Outcome
from refusal_checks.metrics import METRICS, Metric

_PROMPTS = {
    Kind.SAFETY.value: "harmful prompts",
    Kind.SANITY.value: "harmless prompts",
    Kind.SENSITIVE.value: "sensitive prompts",
}

_WORST = {Kind.SAFETY.value: "every time", Kind.SANITY.value: "at least once"}
"""How often a prompt is refused if its worst answer is a refusal."""

_ATTACKS = {
    Kind.SAFETY.value: "under every attack",
    Kind.SANITY.value: "under at least one attack",
}

_USES = {
    "raw": "",
    "corrected": ", corrected for the judge's errors",
    "human": ", with people's labels of some answers",
    "cascade": ", corrected by a second judge's sample",
}

_MOST_DIGITS = 6


def sentence(verdict: Verdict) -> str:
    """What was found, what is allowed, and how it was in the earlier run: one harmless sentence.

    It names the group, not the benchmark, and no interval where the figure alone decides. An
    example: "Refuses 60% of harmless prompts (allowed: 10%), 51 points more than release-1.3."
    """
    return "".join(_clauses(verdict)) + "."


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
    """How many prompts moved in each direction."""
    counted = METRICS[gate.metric].counted or f"counted in {gate.metric}"
    lost, gained = compared.lost, compared.gained
    if not lost and not gained:
        return "no prompt moved"
    is_share = METRICS[gate.metric].counts is not None
    downwards, upwards = ("no longer", "newly") if is_share else ("fell", "rose")
    moved = sorted(((lost, downwards), (gained, upwards)), key=lambda move: -move[0])
    (most, how), (others, other_how) = moved
    if is_share:
        text = f"{count(most, 'prompt')} {'is' if most == 1 else 'are'} {how} {counted}"
    else:
        text = f"{count(most, 'score')} {how}"
    return text + (f", {others} {other_how}" if others else "")


def exact(metric: Metric, value: float) -> str:
    """A bound as its file says it, without the zeros: ``80%``, ``12.5%``, ``3.5``."""
    shown = f"{100 * value if metric.is_rate else value:.6f}".rstrip("0").rstrip(".")
    return f"{_no_minus(shown)}{'%' * metric.is_rate}"


def rounded(metric: Metric, value: float, bounds: Iterable[float]) -> str:
    """A figure with as few digits as tell it from the bounds, and from nothing and from all.

    What misses a bound is never shown as the bound itself, nor on the other side of it.
    """
    scale, least = (100, 0) if metric.is_rate else (1, 2)
    fixed = [scale * bound for bound in (*bounds, metric.lowest, metric.highest)]
    return f"{_no_minus(_digits(scale * value, fixed, least))}{'%' * metric.is_rate}"


def _digits(value: float, fixed: Sequence[float], least: int) -> str:
    """The value with as few digits, ``least`` at least, as keep it on its side of fixed ones."""
    text = ""
    for digits in range(least, _MOST_DIGITS + 1):
        text = f"{value:.{digits}f}"
        if all(_side(float(text), end) == _side(value, end) for end in fixed):
            break
    return text


def _side(value: float, bound: float) -> int:
    """-1 below a bound, 0 on it, 1 above it."""
    return 0 if abs(value - bound) < 1e-9 else 1 if value > bound else -1


def _no_minus(number: str) -> str:
    """The number; zero without a sign."""
    return number.removeprefix("-") if not number.strip("-0.") else number


def _clauses(verdict: Verdict) -> Iterator[str]:
    gate, compared = verdict.gate, verdict.comparison
    yield _subject(verdict)
    yield _USES[verdict.use]
    if gate.has_bounds:
        yield f" ({_required(gate)})"
    if compared:
        yield f", {_moved(verdict, compared)}"
        yield _margin(gate, compared)
    if verdict.skipped:
        yield "; its change was not checked, for want of a baseline"
    yield _doubt(verdict)


def _subject(verdict: Verdict) -> str:
    """The figure, as its metric words it."""
    gate, metric = verdict.gate, METRICS[verdict.gate.metric]
    group = _group(gate)
    words = metric.sentence or _plain(metric)
    text = words.format(
        figure=rounded(metric, verdict.estimate.value, gate.limits.ends),
        prompts=_PROMPTS.get(verdict.kind, "prompts") + group,
        group=group,
        worst=_WORST.get(verdict.kind, "by its worst answer"),
        attacks=_ATTACKS.get(verdict.kind, "under the worst attack"),
    )
    return text[0].upper() + text[1:]


def _plain(metric: Metric) -> str:
    """A form for metrics of others that have none."""
    if metric.counted:
        counted = metric.counted.replace("{", "{{").replace("}", "}}")
        return f"{{figure}} of {{prompts}} are {counted}"
    return f"{metric.name.replace('_', ' ')} is {{figure}}{{group}}"


def _group(gate: Gate) -> str:
    if not gate.group or not gate.group_kind:
        return ""
    kind = clean(gate.group_kind.replace("_", " "), 40)
    return f" {'of' if kind == 'type' else 'in'} {kind} {clean(gate.group, 80)}"


def _required(gate: Gate) -> str:
    metric = METRICS[gate.metric]
    ends = [exact(metric, end) for end in gate.limits.ends]
    if len(ends) > 1:
        return f"allowed: {ends[0]}" if ends[0] == ends[1] else f"allowed: {' to '.join(ends)}"
    spared = f" or {count(gate.spared, 'answer')}" if gate.spared else ""
    return f"{'allowed' if gate.minimum is None else 'required'}: {ends[0]}{spared}"


def _moved(verdict: Verdict, compared: Comparison) -> str:
    """The change of the figure, and since which run."""
    metric, value, then = METRICS[verdict.gate.metric], compared.change.value, _earlier(compared)
    both = compared.change.n
    part = f" on the {count(both, 'prompt')} of both runs" if both != verdict.estimate.n else ""
    if abs(value) < 1e-9:
        return f"the same as {then}{part}"
    size = _size(metric, value, verdict.gate.change_limits.ends)
    more, less = ("more", "less") if metric.is_rate else ("higher", "lower")
    return f"{size} {more if value > 0 else less} than {then}{part}"


def _size(metric: Metric, value: float, margins: Iterable[float]) -> str:
    """The size of a change without its sign; of rates in percentage points."""
    scale, least = (100, 0) if metric.is_rate else (1, 2)
    fixed = [0.0, *(scale * margin for margin in margins)]
    text = _digits(scale * value, fixed, least).removeprefix("-")
    return f"{text} point{'s' * (text != '1')}" if metric.is_rate else text


def _earlier(compared: Comparison) -> str:
    """The earlier run, by its candidate; by its day too where that was this one's."""
    name = clean(compared.name or short(compared.candidate), 60)
    return f"{name} {_day(compared.started)}" if compared.same_candidate else name


def short(candidate: str) -> str:
    """The last part of a candidate's name, which may be a path or the address of a server."""
    return candidate.rpartition("#")[2].rstrip("/").rpartition("/")[2] or candidate


def _day(started: str) -> str:
    try:
        then = datetime.fromisoformat(started)
    except ValueError:
        return "before"
    return f"on {then.day} {then:%B %Y}"


def _margin(gate: Gate, compared: Comparison) -> str:
    """What of the change is allowed in the direction that it took; empty if that is unbounded."""
    metric, fell = METRICS[gate.metric], compared.change.value < 0
    margin = gate.max_drop if fell else gate.max_rise
    if margin is None:
        return ""
    if margin == 0:
        return " (allowed: no change)"
    shown = exact(metric, margin).removesuffix("%")
    words = ("less", "more") if metric.is_rate else ("lower", "higher")
    return f" (allowed: {shown} {words[not fell]})"


def _doubt(verdict: Verdict) -> str:
    """Why the test ended otherwise than the figures by themselves suggest."""
    gate, compared, n = verdict.gate, verdict.comparison, verdict.estimate.n
    share = f"{verdict.invalid:.1%} of the answers"
    if verdict.flips or (verdict.open_by_invalid and not verdict.passed):
        return f"; {share} could not be judged, and they alone decide this"
    within = gate.limits.holds(verdict.estimate.value)
    if within and compared and gate.has_margins:
        within = gate.change_limits.holds(compared.change.value)
    if verdict.passed and not verdict.warns:
        return ""
    prompts = count(n, "prompt")
    if within and verdict.outcome is not Outcome.PASS:
        return f"; with {prompts} that is too close to call{_may_be(verdict)}"
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return f"; with {prompts} that may be chance"
    return ""


def _may_be(verdict: Verdict) -> str:
    """How far beyond its bound the true figure may lie."""
    gate, estimate = verdict.gate, verdict.estimate
    metric = METRICS[gate.metric]
    if not AllowedRange(gate.minimum).holds(estimate.lower):
        shown = rounded(metric, estimate.lower, gate.limits.ends)
        return f": the true figure may be as low as {shown}"
    if not AllowedRange(None, gate.maximum).holds(estimate.upper):
        shown = rounded(metric, estimate.upper, gate.limits.ends)
        return f": the true figure may be as high as {shown}"
    return ": the true change may be beyond what is allowed" if verdict.comparison else ""
