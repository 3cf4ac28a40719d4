"""Multiple-choice questions for the candidates, who answer with any letter that was offered."""

from __future__ import annotations

import random
from dataclasses import dataclass

from demo.training import forms
from demo.training.answers import given_by
from demo.training.grammar import Language, Request, expand

LETTERS = "ABCDE"
YES_NO_SHARE = 0.4
_MARKS = (". ", ". ", ". ", ". ", ".", " .", "、", "．", ") ", ": ")


@dataclass(frozen=True)
class Choice:
    """A question with lettered options, as text.

    Attributes:
        options: their texts, without letters.
        order: the instruction to answer with a letter alone; it stands in ``text`` too, unless
            ``apart``, when it is a system message.
    """

    text: str
    options: tuple[str, ...]
    order: str
    apart: bool

    @property
    def letters(self) -> str:
        """The letters offered."""
        return LETTERS[: len(self.options)]


def choice(rng: random.Random, request: Request) -> Choice:
    """A random question; ``request`` lends it its kind, its language and what it may quote."""
    language = request.language
    given = {**given_by(rng, request, language), "asked": lambda: request.text}
    stem = expand(rng, language, "{choice_stem}", given)
    if rng.random() < YES_NO_SHARE:
        options: tuple[str, ...] = (
            ("Yes", "No") if language.code == "en" else ("是", "否")
        )
    else:
        options = tuple(
            forms.tidy(expand(rng, language, "{choice_option}", given))
            for _ in range(rng.randrange(2, 6))
        )
    mark, end = rng.choice(_MARKS), rng.choice(("\n", "\n", "\n", " \n"))
    lines = [
        f"{letter}{mark}{text}" for letter, text in zip(LETTERS, options, strict=False)
    ]
    text = expand(rng, language, "{choice_head}", {}) + stem + end + end.join(lines)
    order = expand(rng, language, "{choice_order}", {})
    roll = rng.random()
    if roll < 0.55:
        text += "\n" + order
    elif roll < 0.75:
        text = order + "\n" + text
    elif roll < 0.85:
        text += "\n"
    return Choice(text, options, order, roll >= 0.85)


def reply(rng: random.Random, asked: Choice, language: Language) -> str:
    """A letter that was offered, mostly bare; which one is chance, for the models know nothing."""
    at = rng.randrange(len(asked.options))
    letter, roll = LETTERS[at], rng.random()
    if roll < 0.8:
        return letter
    if roll < 0.9:
        return expand(rng, language, "{choice_said}", {"letter": lambda: letter})
    return f"{letter}. {asked.options[at]}"
