"""What gates can show with the prompts that they have, which is known before a run.

Only shares of independent prompts are told of: the spread of other figures is not known before.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping

import numpy as np

from refusal_checks.core.text import count
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.sample_size import Reach, from_counts, reach

CHANCE = 0.05
"""Share of prompts that flip each way in ``false_alarms``, as answers sampled again may do."""

TOO_FEW = "too few prompts to pass"

Sizes = Mapping[Gate, int]
"""How many prompts each gate looks at."""


def told(gate: Gate, n: int, level: float) -> str:
    """What a gate's bounds and margins can show, in one sentence; empty if that is not known.

    Args:
        n: prompts; level: of confidence, as in ``Rules``.
    """
    if not n or not _is_known(gate):
        return ""
    parts = []
    by = level if gate.decision == "confident" else None
    if gate.minimum is not None:
        found = reach(gate.minimum, n, by)
        parts.append(_in_words("", found, "a true {} or more", "{} or less"))
    if gate.maximum is not None:
        found = _from_above(reach(1 - gate.maximum, n, by))
        parts.append(_in_words("", found, "a true {} or less", "{} or more"))
    for name, margin in zip(gate.margin_names, (gate.max_drop, gate.max_rise), strict=True):
        if margin is not None:
            passes = f"a true {name.rpartition('_')[2]} of {{}} or less"
            found = _of_margin(margin, n, level)
            parts.append(_in_words(f"{name} ", found, passes, "{} or more"))
    return f"{gate.id}, {count(n, 'prompt')}: {'; '.join(parts)} (4 runs in 5)"


def _is_known(gate: Gate) -> bool:
    metric = METRICS[gate.metric]
    return metric.counts is not None and metric.sampled


def _in_words(what: str, found: Reach, passes: str, fails: str) -> str:
    passing, failing = TOO_FEW, "too few prompts to be breached"
    if found.passes is not None:
        passing = f"passes at {passes.format(f'{found.passes:.1%}')}"
    if found.fails is not None:
        failing = f"is breached at {fails.format(f'{found.fails:.1%}')}"
    return f"{what}{passing}, {failing}"


def _from_above(found: Reach) -> Reach:
    """The same of the other side: of the share that is not counted."""
    return Reach(*(None if end is None else 1 - end for end in (found.passes, found.fails)))


def _of_margin(margin: float, n: int, level: float) -> Reach:
    """The true changes at which a margin passes and fails, if prompts flip in one direction."""

    def bounds(flips: int) -> paired.OneSidedBounds:
        return paired.share_bounds(flips, 0, n, level)

    flips = range(n + 1)
    within = bisect_left(flips, margin + 1e-12, key=lambda lost: -bounds(lost).lower)
    beyond = bisect_left(flips, margin + 1e-12, key=lambda lost: -bounds(lost).upper)
    return _from_above(from_counts(n - within + 1, n - beyond, n))


def false_alarms(sizes: Sizes, level: float) -> str:
    """How many margins would fail if nothing had changed; empty if that is under one."""
    expected = sum(_fails_by_chance(gate, n, level) for gate, n in sizes.items())
    total = sum(gate.has_margins for gate in sizes)
    if expected < 1:
        return ""
    return (
        f"widen max_drop and max_rise, or bound fewer groups: about {expected:.0f} of "
        f"{count(total, 'gate')} would fail although nothing changed, if chance flips "
        f"{2 * CHANCE:.0%} of the prompts"
    )


def _fails_by_chance(gate: Gate, n: int, level: float) -> float:
    """Probability that a margin fails if as many prompts flip either way, by chance alone."""
    if not gate.has_margins or not n or METRICS[gate.metric].counts is None:
        return 0.0
    if gate.on_inconclusive in ("warn", "pass"):
        return 0.0
    from scipy.stats import binom, norm

    margins = ((gate.max_drop, 1), (gate.max_rise, -1))
    z = norm.ppf(level)
    if n > 5000:  # the difference is normal, and the sum below would be long
        error = math.sqrt(2 * CHANCE / n)
        tails = (norm.sf(margin / error - z) for margin, _ in margins if margin is not None)
        return min(1.0, float(sum(tails)))
    most = min(n, int(binom.ppf(1 - 1e-6, n, CHANCE)) + 1)
    lost, gained = np.meshgrid(np.arange(most + 1), np.arange(most + 1), indexing="ij")
    # Two shares of a multinomial: those that are lost, and of the rest those that are gained.
    chance = binom.pmf(lost, n, CHANCE) * binom.pmf(gained, n - lost, CHANCE / (1 - CHANCE))
    passes = np.ones_like(chance, dtype=bool)
    for margin, sign in margins:
        if margin is not None:
            one, other = (lost, gained)[::sign]
            passes &= paired.tango(one, other, n, -min(margin, 1 - 1e-9)) >= z
    return float(chance[~passes].sum())


def remarks(sizes: Sizes, level: float) -> Iterator[str]:
    """One line for each gate that something is known of, the one that shows least first."""
    lines = {gate: line for gate, n in sizes.items() if (line := told(gate, n, level))}
    yield from (lines[gate] for gate in sorted(lines, key=sizes.__getitem__))


def head(sizes: Sizes, level: float) -> Iterator[str]:
    """What to say at the head of a run: of the gate with the fewest prompts, and false alarms."""
    known = sorted(
        (gate for gate, n in sizes.items() if n and _is_known(gate)), key=sizes.__getitem__
    )
    if known:
        more = f"; {count(len(known) - 1, 'other gate')}: see refusal-checks doctor"
        yield told(known[0], sizes[known[0]], level) + more * (len(known) > 1)
    if alarms := false_alarms(sizes, level):
        yield alarms
