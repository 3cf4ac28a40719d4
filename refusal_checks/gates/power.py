"""The power of gates: what they can show with their number of prompts, known before a run.

Only shares of independent prompts are covered, since the spread of other figures is unknown before
a run. Of a share of answers it is the least that prompts show, as if there were one answer to each.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from refusal_checks.core.text import count
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.metrics.statistics.sample_size import POWER

Sizes = Mapping[Gate, int]  # how many prompts each gate looks at


@dataclass(frozen=True)
class Reach:
    """The true shares at which a bound is met, or breached, with a probability of ``POWER``.

    Attributes:
        passes: the gate passes from this share on; None if no result can pass.
        fails: it is breached from this share on, in the other direction; None if no result can
            breach it.
    """

    passes: float | None
    fails: float | None

    @property
    def complement(self) -> Reach:
        """The same for the opposite share (1 - share)."""
        passes = None if self.passes is None else 1 - self.passes
        fails = None if self.fails is None else 1 - self.fails
        return Reach(passes, fails)

    def in_words(self, first: str = "", second: str = "") -> str:
        """Name both shares, each after its words."""
        if self.passes is None:
            return "cannot pass"
        if self.fails is None:
            return "cannot fail"
        return f"can tell {first}{self.passes:.1%} from {second}{self.fails:.1%}"


def reach(minimum: float, n: int, confidence: float | None) -> Reach:
    """What n prompts show of a share that must be at least ``minimum``.

    With a confidence level, the share's whole Wilson interval must be.
    """
    if confidence is None:
        fewest = math.ceil(minimum * n - 1e-9)
        return _reach_of_counts(fewest, fewest - 1, n)
    counts = range(n + 1)
    # An end of the interval rises with the count, so the first count beyond can be searched for.
    fewest = bisect_left(
        counts, minimum - 1e-12, key=lambda c: wilson(c / n, n, confidence).lower
    )
    first_not_below = bisect_left(
        counts, minimum, key=lambda c: wilson(c / n, n, confidence).upper
    )
    return _reach_of_counts(fewest, first_not_below - 1, n)


def _reach_of_counts(fewest: int, most: int, n: int) -> Reach:
    """The reach of n prompts if ``fewest`` or more pass the gate, and ``most`` or fewer breach it.

    P(count >= c) at a share p is the incomplete beta function I_p(c, n - c + 1).
    """
    # scipy takes long to import, and collecting tests need not wait for it.
    from scipy.special import betaincinv

    passes = fails = None
    if fewest <= 0:
        passes = 0.0
    elif fewest <= n:
        passes = float(betaincinv(fewest, n - fewest + 1, POWER))
    if most >= n:
        fails = 1.0
    elif most >= 0:
        fails = float(betaincinv(most + 1, n - most, 1 - POWER))
    return Reach(passes, fails)


def _reach_of_margin(margin: float, n: int, level: float) -> Reach:
    """The true changes at which a margin is kept, or breached, if prompts flip one way only."""

    def first_beyond(side: int) -> int:
        """The fewest flips with which this bound of the change lies beyond the margin."""
        return bisect_left(
            range(n + 1),
            margin + 1e-12,
            key=lambda lost: -paired.share_bounds(lost, 0, n, level)[side],
        )

    lower, upper = 0, 1
    kept = n - first_beyond(lower) + 1
    breached = n - first_beyond(upper)
    return _reach_of_counts(kept, breached, n).complement


def described(gate: Gate, n: int, level: float) -> str:
    """Say what a gate's bounds and margins can show with n prompts; empty if unknown."""
    if not n or not _is_known(gate):
        return ""
    confidence = level if gate.decision == "confident" else None
    parts = []
    if gate.minimum is not None:
        shown = reach(gate.minimum, n, confidence)
        parts.append(shown.in_words())
    if gate.maximum is not None:
        shown = reach(1 - gate.maximum, n, confidence).complement
        parts.append(shown.in_words())
    margins = [("max_drop", "drop", gate.max_drop), ("max_rise", "rise", gate.max_rise)]
    for name, direction, margin in margins:
        if margin is not None:
            shown = _reach_of_margin(margin, n, level)
            if shown.passes is None:
                parts.append(f"cannot show that {name} is kept")
            else:
                words = shown.in_words(f"a {direction} of ", "one of ")
                parts.append(f"{words} ({name})")
    return f"{gate.id}: with {count(n, 'prompt')} this gate {'; '.join(parts)}"


def _is_known(gate: Gate) -> bool:
    metric = METRICS[gate.metric]
    return metric.counts is not None and metric.sampled


def remarks(sizes: Sizes, level: float) -> Iterator[str]:
    """One line for each gate whose power is known, the weakest gate first."""
    gates = [gate for gate in sizes if _is_known(gate)]
    for gate in sorted(gates, key=sizes.__getitem__):
        line = described(gate, sizes[gate], level)
        if line:
            yield line


def head(sizes: Sizes, level: float) -> Iterator[str]:
    """The line for the head of a run: that of the gate with the fewest prompts, if any."""
    lines = list(remarks(sizes, level))
    if len(lines) > 1:
        others = count(len(lines) - 1, "other gate")
        yield f"{lines[0]}; {others}: see refusal-checks doctor"
    else:
        yield from lines
