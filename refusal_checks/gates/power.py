"""What gates can show with the prompts that they have, which is known before a run.

Only shares of independent prompts are told of: the spread of other figures is not known before.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from refusal_checks.core.text import count
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.metrics.statistics.sample_size import POWER

CHANCE = 0.05
"""Share of prompts that flip each way in ``false_alarms``, as answers sampled again may do."""

TOO_FEW = "too few prompts to pass"

Sizes = Mapping[Gate, int]  # how many prompts each gate looks at


@dataclass(frozen=True)
class Reach:
    """What a number of prompts can show of a share and one bound of it, with ``POWER``."""

    passes: (
        float | None
    )  # the true share from which on the gate passes; None if no outcome passes
    # the one from which on, in the other direction, it is breached; None if no outcome is
    fails: float | None

    @property
    def of_rest(self) -> Reach:
        """The same in terms of the share that is not counted."""
        return Reach(
            *(None if end is None else 1 - end for end in (self.passes, self.fails))
        )

    def in_words(self, passes: str, fails: str) -> str:
        passing, failing = TOO_FEW, "too few prompts to be breached"
        if self.passes is not None:
            passing = f"passes at {passes.format(f'{self.passes:.1%}')}"
        if self.fails is not None:
            failing = f"is breached at {fails.format(f'{self.fails:.1%}')}"
        return f"{passing}, {failing}"


def reach(least: float, n: int, confidence: float | None) -> Reach:
    """What n prompts show of a share, or its Wilson interval, that must be at least ``least``."""
    if confidence is None:
        fewest = math.ceil(least * n - 1e-9)
        return _of_counts(fewest, fewest - 1, n)
    counts = range(n + 1)
    fewest = bisect_left(
        counts, least - 1e-12, key=lambda c: wilson(c / n, n, confidence).lower
    )
    above = bisect_left(counts, least, key=lambda c: wilson(c / n, n, confidence).upper)
    return _of_counts(fewest, above - 1, n)


def _of_counts(fewest: int, most: int, n: int) -> Reach:
    """What n prompts can show if ``fewest`` or more pass a gate, and ``most`` or fewer fail it.

    P(count >= c) at a share p is the incomplete beta function I_p(c, n - c + 1).
    """
    from scipy.special import (
        betaincinv,
    )  # takes long to import, which collection need not wait for

    passes = fails = None
    if fewest <= n:
        passes = float(betaincinv(fewest, n - fewest + 1, POWER)) if fewest > 0 else 0.0
    if most >= 0:
        fails = float(betaincinv(most + 1, n - most, 1 - POWER)) if most < n else 1.0
    return Reach(passes, fails)


def _of_margin(margin: float, n: int, level: float) -> Reach:
    """The true changes at which a margin passes and fails, if prompts flip in one direction."""
    within, beyond = (
        bisect_left(
            range(n + 1),
            margin + 1e-12,
            key=lambda lost: -paired.share_bounds(lost, 0, n, level)[side],
        )
        for side in (0, 1)
    )
    return _of_counts(n - within + 1, n - beyond, n).of_rest


def told(gate: Gate, n: int, level: float) -> str:
    """What a gate's bounds and margins can show with n prompts, in one sentence, if it is known."""
    if not n or not _is_known(gate):
        return ""
    parts = []
    by = level if gate.decision == "confident" else None
    if gate.minimum is not None:
        found = reach(gate.minimum, n, by)
        parts.append(found.in_words("a true {} or more", "{} or less"))
    if gate.maximum is not None:
        found = reach(1 - gate.maximum, n, by).of_rest
        parts.append(found.in_words("a true {} or less", "{} or more"))
    for name, margin in zip(
        gate.margin_names, (gate.max_drop, gate.max_rise), strict=True
    ):
        if margin is not None:
            passes = f"a true {name.rpartition('_')[2]} of {{}} or less"
            parts.append(
                f"{name} {_of_margin(margin, n, level).in_words(passes, '{} or more')}"
            )
    return f"{gate.id}, {count(n, 'prompt')}: {'; '.join(parts)} (4 runs in 5)"


def _is_known(gate: Gate) -> bool:
    metric = METRICS[gate.metric]
    return metric.counts is not None and metric.sampled


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
    is_lenient = gate.on_inconclusive in ("warn", "pass")
    if (
        not gate.has_margins
        or is_lenient
        or not n
        or METRICS[gate.metric].counts is None
    ):
        return 0.0
    from scipy.stats import binom, norm

    margins = ((gate.max_drop, 1), (gate.max_rise, -1))
    z = norm.ppf(level)
    if n > 5000:  # the difference is normal, and the sum below would be long
        error = math.sqrt(2 * CHANCE / n)
        tails = (
            norm.sf(margin / error - z) for margin, _ in margins if margin is not None
        )
        return min(1.0, float(sum(tails)))
    most = min(n, int(binom.ppf(1 - 1e-6, n, CHANCE)) + 1)
    lost, gained = np.meshgrid(np.arange(most + 1), np.arange(most + 1), indexing="ij")
    # Two shares of a multinomial: those that are lost, and of the rest those that are gained.
    chance = binom.pmf(lost, n, CHANCE) * binom.pmf(
        gained, n - lost, CHANCE / (1 - CHANCE)
    )
    passes = np.ones_like(chance, dtype=bool)
    for margin, sign in margins:
        if margin is not None:
            one, other = (lost, gained)[::sign]
            passes &= paired.tango(one, other, n, -min(margin, 1 - 1e-9)) >= z
    return float(chance[~passes].sum())


def remarks(sizes: Sizes, level: float) -> Iterator[str]:
    """One line for each gate that something is known of, the one that shows least first."""
    known = sorted(filter(_is_known, sizes), key=sizes.__getitem__)
    return filter(None, (told(gate, sizes[gate], level) for gate in known))


def head(sizes: Sizes, level: float) -> Iterator[str]:
    """What to say at the head of a run: of the gate with the fewest prompts, and false alarms."""
    if line := next(remarks(sizes, level), ""):
        others = sum(n > 0 and _is_known(gate) for gate, n in sizes.items()) - 1
        more = f"; {count(others, 'other gate')}: see refusal-checks doctor"
        yield line + more * (others > 0)
    if alarms := false_alarms(sizes, level):
        yield alarms
