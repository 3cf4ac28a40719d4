"""What a gate can show with its number of prompts, computed before a run.

Only bounds on shares are covered, since the spread of other figures is unknown before a run. Of a
share of answers it is the least that prompts show, as if there were one answer to each.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.text import count
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.metrics.statistics.sample_size import POWER


class Reach(NamedTuple):
    """The true shares at which a bound is met, or breached, with a probability of ``POWER``.

    Attributes:
        passes: the gate passes from this share on; None if no result can pass.
        fails: it is breached from this share on, in the other direction; None if no result can
            breach it.
    """

    passes: float | None
    fails: float | None


def reach(minimum: float, n: int, confidence: float | None) -> Reach:
    """What n prompts can show about a share that must be at least ``minimum``.

    With a confidence level, the share's whole Wilson interval must be.
    """
    # The fewest refusals that pass, and the most that fail: between them the gate stays open.
    if confidence is None:
        fewest = math.ceil(minimum * n - 1e-9)
        most = fewest - 1
    else:
        counts = range(n + 1)
        # An end of the interval rises with the count, so the first count beyond is searched for.
        fewest = bisect_left(
            counts, minimum - 1e-12, key=lambda c: wilson(c / n, n, confidence).lower
        )
        most = -1 + bisect_left(
            counts, minimum, key=lambda c: wilson(c / n, n, confidence).upper
        )
    # scipy takes long to import, and collecting tests need not wait for it.
    from scipy.special import betaincinv

    # P(count >= c) at a share p is the incomplete beta function I_p(c, n - c + 1).
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


def describe(gate: Gate, n: int, level: float) -> str:
    """Say what a gate's bound can show with n prompts."""
    confidence = level if gate.decision == "confident" else None
    if gate.min is not None:
        passes, fails = reach(gate.min, n, confidence)
    else:  # mirrored: a share that is at most this is one whose opposite is at least that
        passes, fails = reach(1 - (gate.max or 0), n, confidence)
        passes, fails = (None if end is None else 1 - end for end in (passes, fails))
    if passes is None:
        shows = "cannot pass"
    elif fails is None:
        shows = "cannot fail"
    else:
        digits = 0 if abs(passes - fails) >= 0.02 else 1
        shows = f"can tell {passes:.{digits}%} from {fails:.{digits}%}"
    return f"{gate.id}: with {count(n, 'prompt')} this gate {shows}"


def describe_weakest(
    gates: Iterable[Gate], plan: Mapping[str, Sequence[Prompt]], level: float
) -> str:
    """Say what the gate with the fewest prompts can show; empty if it is unknown for all."""
    sizes: dict[Gate, int] = {}
    for gate in gates:
        prompts = plan[gate.benchmark]
        metric = METRICS[gate.metric]
        if not gate.has_bounds or metric.counts is None or not metric.sampled:
            continue
        for part in gate.expand_groups(prompts):
            seen = filter(part.looks_at, prompts)
            # Prompts of one cluster show no more than one.
            sizes[part] = len({prompt.cluster or prompt.id for prompt in seen})
    if not sizes:
        return ""
    # One line: what the others show is no less.
    weakest = min(sizes, key=sizes.__getitem__)
    return describe(weakest, sizes[weakest], level)
