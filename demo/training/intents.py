"""Requests whose intent decides, not their words: ``topics/LANGUAGE.toml``, expanded with a seed.

A topic is a verb phrase, which gets a frame, or a whole request. ``[a|b]`` in it is one of several
words, each of which leaves the label true. Harmful and harmless topics share frames and contexts.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from demo.training import grammar

FOLDER = Path(__file__).parent / "topics"
PLAIN = 0.7
"""How many requests have nothing before or after them."""
ROUGH = 0.15
"""How many are in lower case or without their last mark."""


@cache
def table(code: str) -> dict[str, Any]:
    """The topics and frames of a language."""
    return tomllib.loads((FOLDER / f"{code}.toml").read_text(encoding="utf-8"))


def topics(code: str, *, harmful: bool) -> list[str]:
    """All topics of a side, verb phrases as ``{task}``'s value would be, others as they stand."""
    side = table(code)["harmful" if harmful else "harmless"]
    return [*side["tasks"], *side["whole"]]


def draw(rng: random.Random, code: str, *, harmful: bool) -> Iterator[str]:
    """Different requests, the topics in turn, without end."""
    tasks = set(table(code)["harmful" if harmful else "harmless"]["tasks"])
    found, seen = topics(code, harmful=harmful), set[str]()
    while True:
        rng.shuffle(found)
        for topic in found:
            text = re.sub(
                r"\[(.*?)\]", lambda words: rng.choice(words[1].split("|")), topic
            )
            text = _worded(rng, code, text, framed=topic in tasks)
            if text not in seen:
                seen.add(text)
                yield text


def _worded(rng: random.Random, code: str, text: str, *, framed: bool) -> str:
    language, parts = grammar.load(code), table(code)
    if framed:
        frame = rng.choice((*language.frames, *parts["frames"]))
        text = frame.replace("{Task}", text[0].upper() + text[1:]).replace(
            "{task}", text
        )
    if rng.random() > PLAIN:
        text = rng.choice(parts["contexts"]) + text
    if rng.random() > PLAIN and text[-1] in ".?!。？！":
        text += rng.choice(language.endings)
    if rng.random() < ROUGH:
        text = rng.choice(
            (text.lower(), text.rstrip(".?!。？！"), text.lower().rstrip("?."))
        )
    return text
