"""Answers in every manner that the demo judge must tell apart."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from demo.training import forms
from demo.training.grammar import Given, Language, Request, expand
from refusal_checks.judges.kinds.refusal import RefusalCategory

CATEGORIES = tuple(map(str, RefusalCategory))
HOSTILE_SHARE = 0.09
THINKING_SHARE = 0.03
"""How many judged answers show their thoughts first, as a reasoning candidate's may."""


@dataclass(frozen=True)
class Answer:
    """An answer and what it truly is.

    Attributes:
        manner: a category, ``partial`` (refuses a part), ``none`` or ``disclaimer`` (complies).
    """

    text: str
    manner: str
    language: Language
    hostile: bool

    @property
    def verdict(self) -> str:
        """``refusal`` or ``compliance``."""
        return "compliance" if self.manner in ("none", "disclaimer") else "refusal"

    @property
    def category(self) -> str:
        """One of the 12 categories, or ``none``."""
        if self.verdict == "compliance":
            return "none"
        return "direct_refusal" if self.manner == "partial" else self.manner


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
    return forms.tidy(expand(rng, request.language, f"{{{rule}}}", given))


def answer(rng: random.Random, request: Request, language: Language) -> Answer:
    """A random answer to a request, about half of them refusals of any manner."""
    given = given_by(rng, request, language)
    manner = _manner(rng)
    hostile = rng.random() < HOSTILE_SHARE
    if hostile and rng.random() < 0.3:
        if manner in ("none", "disclaimer"):
            return Answer(
                forms.mock_refusal(rng, language, given), "none", language, True
            )
        return Answer(
            forms.late_refusal(rng, language, given), "direct_refusal", language, True
        )
    text = _wear(rng, _plain(rng, language, given, manner), manner)
    if hostile:
        text = embed(rng, language, text)
    elif rng.random() < THINKING_SHARE:
        side = "harmful" if request.kind.harmful else "benign"
        text = think(rng, request, language, side) + text
    return Answer(text, manner, language, hostile)


def _plain(rng: random.Random, language: Language, given: Given, manner: str) -> str:
    if manner in ("none", "disclaimer"):
        return forms.comply(rng, language, given, manner == "disclaimer")
    if manner == "partial":
        return forms.partial(rng, language, given)
    if manner == "direct_refusal" and rng.random() < 0.45:
        if rng.random() < 0.55:
            return forms.long_refusal(rng, language, given)
        manner = rng.choice(("bare_refusal", "guided_refusal"))
    return forms.tidy(expand(rng, language, f"{{{manner}}}", given))


THINK, THOUGHT = "<think>", "</think>"
"""What stands around the thoughts of the persona ``reasoner``; one token each."""


def think(rng: random.Random, request: Request, language: Language, side: str) -> str:
    """Thoughts between their marks, with the empty line that follows them."""
    return f"{THINK}\n{thoughts(rng, request, language, side)}\n{THOUGHT}\n\n"


def thoughts(
    rng: random.Random, request: Request, language: Language, side: str
) -> str:
    """One to three neutral sentences on a request, sometimes more; it is never quoted.

    Args:
        side: ``harmful``, ``benign`` or ``choice``, what the thoughts take the request for.
    """
    given = given_by(rng, request, language)
    lines = [] if side == "choice" else ["{thought}"]
    lines += ["{musing}"] * (rng.randrange(2, 7) if rng.random() < 0.1 else 0)
    lines += [f"{{thought_{side}}}"] * rng.randrange(1, 3)
    return forms.tidy(expand(rng, language, language.gap.join(lines), given))


def _manner(rng: random.Random) -> str:
    common = ("direct_refusal", "partial", "none", "disclaimer", "")
    return rng.choices(common, (24, 5, 40, 9, 22))[0] or rng.choice(CATEGORIES[1:])


def _wear(rng: random.Random, text: str, manner: str) -> str:
    """Now and then lower case, a lost full stop, or an end cut off by a token limit."""
    roll = rng.random()
    if roll < 0.03:
        return text.lower()
    if roll < 0.06:
        return text.rstrip(".。!！")
    if roll < 0.14 and len(text) > 120 and manner != "partial":
        return text[: rng.randrange(100, len(text))]
    return text


def embed(rng: random.Random, language: Language, text: str) -> str:
    """The text with a claim to the judge before or after it, which changes nothing in it."""
    claim = expand(rng, language, "{hostile}", {})
    pair = (claim, text) if rng.random() < 0.4 else (text, claim)
    return rng.choice((" ", "\n", "\n\n")).join(pair)
