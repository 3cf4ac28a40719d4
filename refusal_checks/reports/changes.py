"""Changes since an earlier run, in words: prompts that moved, intervals, groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from refusal_checks.core.text import clean, count
from refusal_checks.gates.comparison import Comparison, Flip
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.group_changes import most_changed
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate

MOST_GROUPS = 12
"""Most groups that a remark names; the page has a table of all."""


class Moved(NamedTuple):
    """Prompts that moved in one direction since an earlier run.

    Attributes:
        how: how many prompts moved, and how.
        flips: some of them; their texts are untrusted and not escaped.
    """

    how: str
    flips: Sequence[Flip]

    @property
    def heading(self) -> str:
        return f"{len(self.flips)} of {self.how}"


def moved(verdict: Verdict) -> list[Moved]:
    """The prompts that moved since the baseline, by direction."""
    compared = verdict.comparison
    if compared is None:
        return []
    metric = METRICS[verdict.gate.metric]
    if compared.of_prompts:
        counted = metric.counted or f"counted in {metric.name}"
        down, up = f"no longer {counted}", f"newly {counted}"
    else:
        down, up = f"whose {metric.scored} fell", f"whose {metric.scored} rose"
    fell = f"{count(compared.lost, 'prompt')} {down} since the baseline"
    rose = f"{count(compared.gained, 'prompt')} {up} since the baseline"
    both = [Moved(fell, compared.fell), Moved(rose, compared.rose)]
    return [moves for moves in both if moves.flips]


def bounds(verdict: Verdict, compared: Comparison) -> str:
    """The change with its interval, its p-value and what the margins allow."""
    gate = verdict.gate
    show = METRICS[gate.metric].show_change
    parts = [f"change {span(gate, compared.change)}, n = {compared.change.n}"]
    p = compared.p_flips
    if p is not None and (compared.lost or compared.gained):
        parts.append("McNemar's p < 0.001" if p < 0.001 else f"McNemar's p = {p:.2g}")
    low, high = gate.change_limits.low, gate.change_limits.high
    drop, rise = gate.margin_names
    bound = f"(one-sided {100 * verdict.level:.4g}% bound)"
    if low is not None:
        allowed = f"{drop} allows {show(low)}"
        parts.append(f"at least {show(compared.lower)} {bound}, {allowed}")
    if high is not None:
        allowed = f"{rise} allows {show(high)}"
        parts.append(f"at most {show(compared.upper)} {bound}, {allowed}")
    return "; ".join(parts)


def by_group(gate: Gate, compared: Comparison) -> Iterator[str]:
    """A line per kind of group on the groups that changed, largest change first."""
    sign = -1 if compared.change.value < 0 else 1
    for kind in dict.fromkeys(group.kind for group in compared.groups):
        of_kind = [group for group in compared.groups if group.kind == kind]
        changed = [
            group for group in most_changed(of_kind, sign) if group.lost or group.gained
        ]
        if changed:
            shown = "; ".join(
                f"{clean(group.group, 60)} {span(gate, group.change)}, n = {group.change.n}"
                for group in changed[:MOST_GROUPS]
            )
            name = clean(kind.replace("_", " "), 40)
            yield f"change by {name}: {shown}{more(len(changed))}"


def left_out(compared: Comparison) -> str:
    """Say how many prompts the comparison leaves out, by reason; empty if none."""
    prompts_by_reason = {
        "only in this run": compared.only_now,
        "only in the baseline": compared.only_then,
        "with another wording": compared.reworded,
        "without a verdict in one of the runs": compared.unscored,
    }
    return ", ".join(
        f"{count(prompts, 'prompt')} {reason}"
        for reason, prompts in prompts_by_reason.items()
        if prompts
    )


def span(gate: Gate, change: Estimate) -> str:
    return METRICS[gate.metric].show_change(change.value, change.lower, change.upper)


def more(groups: int) -> str:
    """Say how many groups are not named."""
    return f"; and {groups - MOST_GROUPS} more" if groups > MOST_GROUPS else ""
