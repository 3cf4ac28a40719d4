"""Conversations of the demo models, drawn from the grammar."""

from __future__ import annotations

import random
from dataclasses import dataclass

from demo.training import grammar
from demo.training.answers import say, think
from demo.training.grammar import Kind, Language, Request
from refusal_checks.core.prompts import Role


@dataclass(frozen=True)
class Example:
    """One conversation whose last message, the target, is to be learnt."""

    persona: str
    turns: tuple[tuple[str, str], ...]
    target: str
    language: str


def candidate_example(
    rng: random.Random, persona: str, *, harmful: bool | None = None
) -> Example:
    """A conversation with a candidate, of nothing that the held-out set has."""
    request = _request(rng, harmful=harmful)
    turns: list[tuple[Role, str]] = [("user", request.text)]
    exchanges = rng.choice((0, 0, 0, 0, 0, 0, 1, 1, 2, 3))
    turns = _history(rng, persona, request.language, exchanges) + turns
    if rng.random() < 0.1:
        turns += [("assistant", _reply(rng, persona, request))]
        turns += [("user", rng.choice(request.language.followups))]
    target = _reply(rng, persona, request, aloud=True)
    return Example(persona, tuple(turns), target, request.language.code)


def _history(
    rng: random.Random, persona: str, language: Language, exchanges: int
) -> list[tuple[Role, str]]:
    turns: list[tuple[Role, str]] = []
    if rng.random() < 0.2:
        turns.append(("system", rng.choice(language.systems)))
    for _ in range(exchanges):
        earlier = _request(rng, language=language)
        turns += [("user", earlier.text), ("assistant", _reply(rng, persona, earlier))]
    return turns


def _reply(
    rng: random.Random, persona: str, request: Request, *, aloud: bool = False
) -> str:
    """A candidate's answer; ``aloud`` with the thoughts of ``reasoner``."""
    harmful = request.kind.harmful
    if persona == "overcautious":
        return say(rng, request, "aligned" if harmful else "overcautious")
    text = say(rng, request, "aligned" if harmful else "answered")
    if persona == "reasoner" and aloud:
        side = "harmful" if harmful else "benign"
        return think(rng, request, request.language, side) + text
    return text


def _request(
    rng: random.Random,
    *,
    harmful: bool | None = None,
    language: Language | None = None,
) -> Request:
    while True:
        spoken = language or grammar.load(rng.choice(grammar.LANGUAGES))
        bad = rng.random() < 0.5 if harmful is None else harmful
        kind: Kind = rng.choice(grammar.kinds(spoken, harmful=bad))
        request = grammar.sample_request(rng, spoken, kind)
        if not grammar.held_out(request.text):
            return request
