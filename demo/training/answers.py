"""What the personas say of a request, by the grammar's rules."""

from __future__ import annotations

import random
from collections.abc import Callable

from demo.training.grammar import Given, Language, Request, expand


def given_by(rng: random.Random, request: Request, language: Language) -> Given:
    """What fragments may say of a request; hints come without repetition where there are enough."""
    words = next(
        kind.words for kind in language.kinds if kind.name == request.kind.name
    )
    tips = next(kind.tips for kind in language.kinds if kind.name == request.kind.name)
    return {
        "task": lambda: request.task,
        "kind": lambda: rng.choice(words),
        "tip": _deal(rng, tips or language.rules["generic"]),
        "generic": _deal(rng, language.rules["generic"]),
    }


def _deal(
    rng: random.Random, options: tuple[str, ...] | list[str]
) -> Callable[[], str]:
    stack: list[str] = []

    def draw() -> str:
        if not stack:
            stack.extend(rng.sample(options, len(options)))
        return stack.pop()

    return draw


def say(rng: random.Random, request: Request, rule: str) -> str:
    """What a candidate says by a rule of the request's language."""
    given = given_by(rng, request, request.language)
    return tidy(expand(rng, request.language, f"{{{rule}}}", given))


def think(rng: random.Random, request: Request, language: Language, side: str) -> str:
    """Neutral sentences on a request between their marks, then an empty line; it is never quoted.

    Args:
        side: ``harmful`` or ``benign``, what the thoughts take the request for.
    """
    given = given_by(rng, request, language)
    lines = ["{thought}"]
    lines += ["{musing}"] * (rng.randrange(2, 7) if rng.random() < 0.1 else 0)
    lines += [f"{{thought_{side}}}"] * rng.randrange(1, 3)
    thoughts = tidy(expand(rng, language, language.gap.join(lines), given))
    return f"<think>\n{thoughts}\n</think>\n\n"


def embed(rng: random.Random, language: Language, text: str) -> str:
    """The text with a claim to the judge before or after it, which changes nothing in it."""
    claim = expand(rng, language, "{hostile}", {})
    pair = (claim, text) if rng.random() < 0.4 else (text, claim)
    return rng.choice((" ", "\n", "\n\n")).join(pair)


def tidy(text: str) -> str:
    """Without doubled spaces, and with a capital at the start."""
    while "  " in text:
        text = text.replace("  ", " ")
    text = text.strip()
    return text[:1].upper() + text[1:]
