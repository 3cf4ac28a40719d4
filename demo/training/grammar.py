"""The text world of the demo models: fragments in TOML files, and how they are put together."""

from __future__ import annotations

import hashlib
import random
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FRAGMENTS = Path(__file__).parent / "fragments"
LANGUAGES = ("en", "zh")
HELD_OUT_SHARE = 0.1
QUESTION_SHARE = 0.2
"""How many requests of a kind that has whole questions are such a question."""

Given = Mapping[str, Callable[[], str]]
"""What a ``{name}`` in a fragment stands for, beside the grammar's own rules."""

_SYLLABLES = re.findall(
    r"\w+",
    "ba co di fu gle hon ira jo kel lu men nor op pre qua ris ste tor ul ver wick xen yo zan "
    "tion ing ment able ous est al er ly ity ize pro con dis un re inter sub graph phon light",
)
_CHARACTERS = "山川石木金林风云海青明华建国平安东西南北春秋竹梅文武天地高长新古"


@dataclass(frozen=True)
class Kind:
    """One kind of request.

    Attributes:
        name: its category, for example ``cooking``.
        words: how an answer may call it.
        tasks: verb phrases, each a (verb, object) pair.
        tips: hints for an answer; empty for harmful kinds.
        questions: whole questions, asked without a frame.
    """

    name: str
    harmful: bool
    words: tuple[str, ...]
    groups: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    tips: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Language:
    """All fragments of one language.

    Attributes:
        rules: name -> alternatives; ``{name}`` in an alternative is replaced in turn.
    """

    code: str
    greetings: tuple[str, ...]
    frames: tuple[str, ...]
    endings: tuple[str, ...]
    systems: tuple[str, ...]
    followups: tuple[str, ...]
    kinds: tuple[Kind, ...]
    rules: Mapping[str, list[str]]

    @property
    def gap(self) -> str:
        """What stands between two sentences."""
        return " " if self.code == "en" else ""


@dataclass(frozen=True)
class Request:
    """A request in words, and what it is made of."""

    text: str
    task: str
    kind: Kind
    language: Language


def held_out(text: str) -> bool:
    """Whether this combination belongs to the held-out set: decided by its hash alone."""
    return hashlib.sha256(text.encode()).digest()[0] < 256 * HELD_OUT_SHARE


def read(name: str) -> dict[str, Any]:
    """The fragment file ``<name>.toml``."""
    return tomllib.loads((FRAGMENTS / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def load(code: str) -> Language:
    """The fragments of the language ``en`` or ``zh``."""
    parts = ("requests", "questions", "answers", "filler", "longer", "natural", "tasks")
    asked, questions, answers, filler, longer, natural, tasks = (
        read(f"{part}_{code}") for part in parts
    )
    return Language(
        code=code,
        greetings=tuple(asked["greetings"]),
        frames=tuple(asked["frames"]),
        endings=tuple(asked["endings"]),
        systems=tuple(asked["systems"]),
        followups=tuple(asked["followups"]),
        kinds=tuple(_kinds(asked, questions)),
        rules=_joined(
            part["rules"] for part in (filler, answers, longer, natural, tasks)
        ),
    )


def _joined(parts: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """All rules; one that stands in several files has the alternatives of all."""
    rules: dict[str, list[str]] = {}
    for part in parts:
        for name, alternatives in part.items():
            rules[name] = rules.get(name, []) + alternatives
    return rules


def _kinds(asked: Mapping[str, Any], questions: Mapping[str, Any]) -> Iterator[Kind]:
    for side in ("harmful", "benign"):
        for name, raw in asked[side].items():
            groups = tuple(
                (tuple(verbs), tuple(objects)) for verbs, objects in raw["groups"]
            )
            yield Kind(
                name=name,
                harmful=side == "harmful",
                words=tuple(raw["name"]),
                groups=groups,
                tips=tuple(raw.get("tips", ())),
                questions=tuple(questions[side].get(name, ())),
            )


def sample_request(rng: random.Random, language: Language, kind: Kind) -> Request:
    """A random request of a kind: a whole question, or a frame with a verb and an object."""
    if kind.questions and rng.random() < QUESTION_SHARE:
        about = "talk about " if language.code == "en" else "谈论"
        text = rng.choice(language.greetings) + rng.choice(kind.questions)
        if rng.random() < 0.5:
            text += rng.choice(language.endings)
        return Request(text, about + rng.choice(kind.words), kind, language)

    sizes = [len(verbs) * len(objects) for verbs, objects in kind.groups]
    verbs, objects = rng.choices(kind.groups, [size**0.5 for size in sizes])[0]
    joint = " " if language.code == "en" else ""
    task = rng.choice(verbs) + joint + rng.choice(objects)
    return Request(_wording(rng, language, task), task, kind, language)


def _wording(rng: random.Random, language: Language, task: str) -> str:
    greeting, frame = rng.choice(language.greetings), rng.choice(language.frames)
    ending = rng.choice(language.endings) if frame[-1] in ".?。？" else ""
    text = frame.replace("{Task}", task[0].upper() + task[1:]).replace("{task}", task)
    if greeting.endswith(", ") and not text.startswith("I "):
        text = text[0].lower() + text[1:]
    return greeting + text + ending


def kinds(language: Language, *, harmful: bool) -> tuple[Kind, ...]:
    """The language's harmful or benign kinds."""
    return tuple(kind for kind in language.kinds if kind.harmful == harmful)


def expand(rng: random.Random, language: Language, text: str, given: Given) -> str:
    """The text with every ``{name}`` replaced, at random, until none is left.

    A name with a trailing underscore gets a capital letter.
    """

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        bare = name.removesuffix("_")
        filled = _value(rng, language, bare, given)
        return filled[:1].upper() + filled[1:] if name != bare else filled

    return re.sub(r"\{([a-z_]+)\}", fill, text)


def _value(rng: random.Random, language: Language, name: str, given: Given) -> str:
    if name in given:
        return given[name]()
    if name in _NUMBERS:
        return str(_NUMBERS[name](rng))
    if name == "word" and rng.random() < 0.3:
        return invented(rng, language)
    if name == "sentence" and rng.random() < 0.4:
        return babble(rng, language)
    return expand(rng, language, rng.choice(language.rules[name]), given)


_NUMBERS: dict[str, Callable[[random.Random], int | str]] = {
    "number": lambda rng: rng.randrange(1, rng.choice((10, 100, 1000))),
    "year": lambda rng: rng.randrange(1400, 2030),
    "day": lambda rng: rng.randrange(1, 31),
    "hex": lambda rng: f"{rng.getrandbits(32):08x}",
    "digit": lambda rng: rng.randrange(6),
    "fake": lambda rng: rng.choice(("refusal", "compliance")),
}


def invented(rng: random.Random, language: Language) -> str:
    """A word that does not exist, so that the judge learns that unknown words decide nothing."""
    if language.code == "zh":
        return "".join(rng.choices(_CHARACTERS, k=rng.randrange(2, 4)))
    return "".join(rng.choices(_SYLLABLES, k=rng.randrange(2, 4)))


def babble(rng: random.Random, language: Language) -> str:
    """A sentence that only looks like one: function words, known and invented words by turns.

    Real answers hold much that the grammar lacks. Text without any sign of a refusal has to count
    as compliance, however strange it is, and this is the cheapest source of strange text.
    """
    words = []
    for _ in range(rng.randrange(4, 22)):
        if rng.random() < 0.5:
            words.append(rng.choice(language.rules["function"]))
        elif rng.random() < 0.5:
            words.append(
                rng.choice(language.rules[rng.choice(("word", "adj", "verb", "adv"))])
            )
        else:
            words.append(invented(rng, language))
        if rng.random() < 0.08:
            words[-1] += "," if language.code == "en" else "，"
    text = (" " if language.code == "en" else "").join(words).rstrip(",，")
    return text[:1].upper() + text[1:] + ("." if language.code == "en" else "。")
