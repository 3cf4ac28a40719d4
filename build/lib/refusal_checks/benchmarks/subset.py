"""A stratified, seeded part of a benchmark's prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from refusal_checks.core.prompts import Prompt

STRATA = ("category", "language", "history")
"""Kinds of group whose proportions a part keeps, the more important first."""

SEED = 0
"""Selects one of the equally good parts; do not change it, or runs become incomparable."""

_GOLDEN = (5**0.5 - 1) / 2


def stratified(
    prompts: Sequence[Prompt], limit: int | None, seed: int = SEED
) -> tuple[Prompt, ...]:
    """At most ``limit`` prompts, in their order, with the whole's mix of the groups in ``STRATA``.

    Groups are drawn systematically, each from a start of its own: its share of a part is its share
    of the whole, to within a prompt of that in any part, and on average over seeds however small it
    is. The part depends on ids, groups and seed, not on the prompts' order; a larger limit keeps
    what a smaller one took.
    """
    if limit is None or limit >= len(prompts):
        return tuple(prompts)
    chosen = {prompt.id for prompt in _spread(prompts, STRATA, seed)[:limit]}
    return tuple(prompt for prompt in prompts if prompt.id in chosen)


def _spread(
    prompts: Sequence[Prompt], kinds: Sequence[str], seed: int, path: tuple[str, ...] = ()
) -> list[Prompt]:
    """The prompts, all of the groups in ``path``; every beginning has the groups' shares."""
    if not kinds:
        return sorted(prompts, key=lambda prompt: _draw(seed, prompt.id))
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.groups.get(kinds[0], ""), []).append(prompt)
    starts = _starts({group: len(members) for group, members in groups.items()}, seed, path)
    places = [
        ((number + starts[group]) / len(members), _draw(seed, prompt.id), prompt)
        for group, members in groups.items()
        for number, prompt in enumerate(_spread(members, kinds[1:], seed, (*path, group)))
    ]
    return [prompt for _, _, prompt in sorted(places, key=lambda place: place[:2])]


def _starts(sizes: Mapping[str, int], seed: int, path: tuple[str, ...]) -> dict[str, float]:
    """Where each group's first prompt lies, in [0, 1) of its distance to the next.

    Each is uniform over seeds. Groups of like size, in random order, have starts that cover the
    distance evenly (multiples of the golden ratio), so that of many small groups a part takes its
    share too.
    """
    first = int.from_bytes(_draw(seed, json.dumps(path))[:7]) / 2**56
    order = sorted(sizes, key=lambda group: (sizes[group], _draw(seed, json.dumps([*path, group]))))
    return {group: (first + rank * _GOLDEN) % 1 for rank, group in enumerate(order)}


def _draw(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
