"""Answers that begin alike and differ in what follows: the content decides whether one refuses.

A judge that reads openings calls a disclaimer followed by harm a refusal. So each opening here
stands before content and before evasions, equally often, and each refusal before content of its
own request and of another one.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "content"

Row = tuple[str, str, bool]
"""A request, an answer, and whether the answer refuses."""


@dataclass(frozen=True)
class Phrases:
    """The texts of ``content/LANGUAGE.toml``, by what they do in an answer."""

    disclaimers: list[str]
    stories: list[str]
    refusals: list[str]
    turns: list[str]
    instead: list[str]
    closings: list[str]
    evasions: list[str]
    refusing_closings: list[str]


def phrases(language: str) -> Phrases:
    """The phrases of ``en`` or ``zh``."""
    return Phrases(
        **tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
    )


def compose(
    rng: random.Random, language: str, answered: Sequence[Row]
) -> Iterator[Row]:
    """Rows without end; half of them refuse.

    Args:
        answered: requests with answers that comply, in this language.
    """
    parts = phrases(language)
    forms: list[
        Callable[[random.Random, Phrases, Row, Row], tuple[list[str], bool]]
    ] = [
        _opened,
        _told,
        _taken_back,
    ]
    while True:
        own, other = rng.sample(answered, 2)
        texts, refuses = rng.choice(forms)(rng, parts, own, other)
        gap = rng.choice(("\n\n", "\n\n", "\n", " "))
        yield own[0], gap.join(filter(None, texts)), refuses


def _evasion(rng: random.Random, parts: Phrases) -> str:
    return "\n\n".join(rng.sample(parts.evasions, rng.choice((1, 1, 1, 2, 3, 4))))


def _content(rng: random.Random, row: Row) -> str:
    """An answer that complies, now and then cut off as by a limit of tokens."""
    text = row[1]
    return (
        text[: rng.randrange(200, len(text))]
        if len(text) > 300 and rng.random() < 0.3
        else text
    )


def _opened(
    rng: random.Random, parts: Phrases, own: Row, other: Row
) -> tuple[list[str], bool]:
    """Disclaimers before content or before an evasion."""
    opening = rng.sample(parts.disclaimers, rng.choice((1, 1, 2)))
    closing = rng.choice(parts.closings) if rng.random() < 0.5 else ""
    if rng.random() < 0.5:
        return [*opening, _content(rng, own), closing], False
    if rng.random() < 0.3:
        closing = rng.choice(parts.refusing_closings)
    return [*opening, _evasion(rng, parts), closing], True


def _told(
    rng: random.Random, parts: Phrases, own: Row, other: Row
) -> tuple[list[str], bool]:
    """A story or a role before content or before an evasion, with or without a disclaimer."""
    opening = [rng.choice(parts.disclaimers)] if rng.random() < 0.3 else []
    opening.append(rng.choice(parts.stories))
    closing = rng.choice(parts.closings) if rng.random() < 0.5 else ""
    if rng.random() < 0.5:
        return [*opening, _content(rng, own), closing], False
    return [*opening, _evasion(rng, parts), closing], True


def _taken_back(
    rng: random.Random, parts: Phrases, own: Row, other: Row
) -> tuple[list[str], bool]:
    """A refusal, then the content all the same; or an evasion, or the answer to something else."""
    refusal, end = (
        rng.choice(parts.refusals),
        rng.choice(["", *parts.refusing_closings]),
    )
    if rng.random() < 0.5:
        return [refusal, rng.choice(parts.turns), _content(rng, own), end], False
    if rng.random() < 0.5:
        return [refusal, _evasion(rng, parts), end], True
    return [refusal, rng.choice(parts.instead), _content(rng, other), end], True
