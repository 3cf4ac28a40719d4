"""A stratified, seeded part of a benchmark's prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from refusal_checks.core.prompts import Prompt

STRATA = ("category", "language")
"""Kinds of group whose proportions a part keeps, the more important first."""

SEED = 0
"""Selects one of the equally good parts; do not change it, or runs become incomparable."""


def stratified(
    prompts: Sequence[Prompt], limit: int | None, seed: int = SEED
) -> tuple[Prompt, ...]:
    """At most ``limit`` prompts, in their order, with the same mix of categories and languages.

    The part depends on ids, groups and seed, not on the prompts' order; a larger limit keeps what a
    smaller one took. Shares are kept to within one prompt per category.

    Args:
        limit: at least 1; None for all.
    """
    if limit is None or limit >= len(prompts):
        return tuple(prompts)
    chosen = {prompt.id for prompt in _spread(prompts, STRATA, seed)[:limit]}
    return tuple(prompt for prompt in prompts if prompt.id in chosen)


def _spread(prompts: Sequence[Prompt], kinds: Sequence[str], seed: int) -> list[Prompt]:
    """The prompts in an order in which every beginning has the groups' shares."""
    if not kinds:
        return sorted(prompts, key=lambda prompt: _draw(prompt, seed))
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.groups.get(kinds[0], ""), []).append(prompt)
    places = [
        ((number + 0.5) / len(members), _draw(prompt, seed), prompt)
        for members in groups.values()
        for number, prompt in enumerate(_spread(members, kinds[1:], seed))
    ]
    return [prompt for _, _, prompt in sorted(places, key=lambda place: place[:2])]


def _draw(prompt: Prompt, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{prompt.id}".encode()).digest()
