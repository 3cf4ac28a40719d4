"""A stratified, seeded part of a benchmark's prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from refusal_checks.core.prompts import Prompt

STRATA = ("category", "language")
"""Kinds of group whose proportions a part keeps, the first before the second."""

SEED = 0
"""Which of the equally good parts it is; another one would make earlier runs incomparable."""


def stratified(
    prompts: Sequence[Prompt], limit: int | None, seed: int = SEED
) -> tuple[Prompt, ...]:
    """At most ``limit`` prompts, in their order, with the whole's shares of categories and, within
    each, of languages.

    The same for the same ids, groups and seed, whatever the prompts' order; a larger limit keeps
    what a smaller one took. Shares are kept to within one prompt a category.

    Args:
        limit: at least 1; None takes all.
    """
    if limit is None or limit >= len(prompts):
        return tuple(prompts)
    chosen = {prompt.id for prompt in _spread(prompts, STRATA, seed)[:limit]}
    return tuple(prompt for prompt in prompts if prompt.id in chosen)


def _spread(prompts: Sequence[Prompt], kinds: Sequence[str], seed: int) -> list[Prompt]:
    """The prompts so ordered that every beginning has the groups' shares."""
    if not kinds:
        return sorted(prompts, key=lambda prompt: _draw(prompt, seed))
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.groups.get(kinds[0], ""), []).append(prompt)
    places = [
        ((number + 0.5) / len(found), _draw(prompt, seed), prompt)
        for found in groups.values()
        for number, prompt in enumerate(_spread(found, kinds[1:], seed))
    ]
    return [prompt for _, _, prompt in sorted(places, key=lambda place: place[:2])]


def _draw(prompt: Prompt, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{prompt.id}".encode()).digest()
