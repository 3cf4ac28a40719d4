"""Find the groups of prompts in which a figure changed most between two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.prompts import Prompt
from refusal_checks.metrics import Metric
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import Estimate

SAME = 1e-8
"""Difference below which two values of a prompt count as equal."""


@dataclass(frozen=True)
class GroupChange:
    """The change of a gate's figure over the prompts of one group.

    Attributes:
        lost, gained: for a share of prompts, how many left and joined it; else how many prompts'
            scores fell and rose.
    """

    kind: str
    group: str
    change: Estimate
    lost: int
    gained: int

    def is_certain(self, sign: int) -> bool:
        """True if the whole interval is below zero (``sign`` -1) or above it (``sign`` 1)."""
        return self.change.upper < 0 if sign < 0 else self.change.lower > 0


def changes_by_group(
    metric: Metric,
    prompts: Mapping[str, Prompt],
    values: Mapping[str, tuple[float, float]],
    level: float,
) -> tuple[GroupChange, ...]:
    """The change in each group of prompts, from values before and after; categories first.

    It covers each kind with at least two groups, in the prompts' order.
    """
    kinds = dict.fromkeys(kind for prompt in prompts.values() for kind in prompt.groups)
    changes = []
    for kind in sorted(kinds, key="category".__ne__):
        members: dict[str, list[str]] = {}
        for name, prompt in prompts.items():
            group = prompt.groups.get(kind)
            if group:
                members.setdefault(group, []).append(name)
        if len(members) < 2:
            continue
        for group, names in members.items():
            old, new = zip(*(values[name] for name in names), strict=True)
            units = metric.units([prompts[name] for name in names])
            change = paired.difference(old, new, metric.span, level, units)
            pairs = list(zip(old, new, strict=True))
            lost = sum(after < before - SAME for before, after in pairs)
            gained = sum(after > before + SAME for before, after in pairs)
            changes.append(GroupChange(kind, group, change, lost, gained))
    return tuple(changes)


def most_changed(groups: Iterable[GroupChange], sign: int) -> list[GroupChange]:
    """Groups that certainly fell (``sign`` -1) or rose (1), the largest change first.

    They are sorted by the interval's end that is nearer to zero, then by the change itself. They
    are all of one kind, that of the group that changed most, for example a category or a language.
    """

    def size(group: GroupChange) -> tuple[float, float]:
        nearer = group.change.upper if sign < 0 else group.change.lower
        return sign * nearer, sign * group.change.value

    ranked = sorted(groups, key=size, reverse=True)
    return [group for group in ranked if group.kind == ranked[0].kind]


def in_order(
    names: Sequence[str],
    prompts: Mapping[str, Prompt],
    groups: Sequence[GroupChange],
    sign: int,
) -> list[str]:
    """Order prompts that moved for reports: spread over the groups, most changed first.

    Groups take turns. Groups that may have changed by chance alone come after all others. Within a
    group the given order stays.
    """
    ranked = most_changed(groups, sign)
    if not ranked:
        return [*names]
    ranks = {group.group: rank for rank, group in enumerate(ranked)}
    certain = {group.group for group in ranked if group.is_certain(sign)}
    turns = Counter[str]()
    places = {}
    for name in names:
        group = prompts[name].groups.get(ranked[0].kind, "")
        turns[group] += 1
        rank = ranks.get(group, len(ranks))
        places[name] = (group not in certain, turns[group], rank)
    return sorted(names, key=places.__getitem__)
