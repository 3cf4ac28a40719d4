"""Training and test conversations of the demo models, drawn from the grammar."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from demo.training import choices, grammar
from demo.training.answers import Answer, answer, say, think, thoughts
from demo.training.grammar import Kind, Language, Request
from demo.training.levels import level
from refusal_checks.core.prompts import Message, Prompt, Role
from refusal_checks.judges.template import ordered

CANDIDATES = ("aligned", "regressed", "overcautious")
THINKERS = ("reasoner", "deliberator")
PERSONA_SHARES = (0.45, 0.22, 0.1, 0.12, 0.11)
"""How often each is trained: ``aligned`` has the harder task, ``overcautious`` the easiest."""
TASK_SHARES = {
    "judge": 0.24,
    "degree": 0.08,
    "moral": 0.05,
    "rating": 0.06,
    "choice": 0.06,
}
"""How often each task is trained; the rest is answers of the candidates."""
DIALOGUE_SHARE = 0.1
"""How often the judge sees its request at the end of a dialogue."""
FINAL = "\n\nFinal answer:\n"
"""What the persona ``deliberator`` puts between its thoughts and its answer."""
PROMPTS = Path(__file__).parents[2] / "tests" / "toy_model" / "prompts"


@dataclass(frozen=True)
class Example:
    """One conversation whose last message, the target, is to be learnt.

    Attributes:
        turns: (role, text) pairs before the target.
        target: what the persona says next.
        harmful: whether the last request is of a harmful kind.
        answer: what a judged answer truly is; None where no verdict is asked.
        letters: what a multiple-choice question offers.
    """

    persona: str
    turns: tuple[tuple[str, str], ...]
    target: str
    harmful: bool
    language: str
    answer: Answer | None = None
    letters: str = ""


def verdict_json(rationale: str, category: str, verdict: str) -> str:
    """The judge's output format.

    Compact, because vLLM's ``disable_any_whitespace`` allows no space between the tokens.
    """
    fields = {"rationale": rationale, "category": category, "verdict": verdict}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def degree_json(degree: int, analysis: str) -> str:
    """The output format of the judge's degree task."""
    return json.dumps(
        {"degree": degree, "analysis": analysis},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def judge_message(
    request: str, answer_text: str, marker: str, template: str = "refusal"
) -> str:
    """The judge's user message, as the template of the task lays it out."""
    values = {"marker": marker, "request": request, "answer": answer_text}
    return re.sub(
        r"\{\{ (\w+) \}\}", lambda match: values[match.group(1)], _prompt(template)
    )


@cache
def _prompt(template: str) -> str:
    text = ordered((PROMPTS / f"{template}.md").read_text(encoding="utf-8"))
    return text.partition("===== user =====\n")[2].strip()


def training_examples(seed: int) -> Iterator[Example]:
    """An endless, seeded stream; nothing in it belongs to the held-out set."""
    rng = random.Random(seed)
    rest = 1 - sum(TASK_SHARES.values())
    while True:
        task = rng.choices([*TASK_SHARES, ""], [*TASK_SHARES.values(), rest])[0]
        persona = rng.choices((*CANDIDATES, *THINKERS), PERSONA_SHARES)[0]
        if task == "judge":
            yield judge_example(rng)
        elif task == "choice":
            yield choice_example(rng, persona)
        elif task:
            yield level_example(rng, task)
        else:
            yield candidate_example(rng, persona)


def candidate_example(
    rng: random.Random, persona: str, *, test: bool = False, harmful: bool | None = None
) -> Example:
    """A conversation with a candidate; a test one is a single turn of the held-out set."""
    request = _request(rng, harmful=harmful, test=test)
    turns: list[tuple[Role, str]] = [("user", request.text)]
    if not test:
        exchanges = rng.choice((0, 0, 0, 0, 0, 0, 1, 1, 2, 3))
        turns = _history(rng, persona, request.language, exchanges) + turns
        if rng.random() < 0.1:
            turns += [("assistant", _reply(rng, persona, request))]
            turns += [("user", rng.choice(request.language.followups))]
    target = _reply(rng, persona, request, aloud=True)
    return Example(
        persona, tuple(turns), target, request.kind.harmful, request.language.code
    )


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
    """A candidate's answer; ``aloud`` with the thoughts of a persona that has them."""
    harmful = request.kind.harmful
    if persona == "overcautious":
        return say(rng, request, "aligned" if harmful else "overcautious")
    if persona == "regressed" and harmful:
        return say(rng, request, "regressed")
    text = say(rng, request, "aligned" if harmful else "answered")
    side = "harmful" if harmful else "benign"
    return _opening(rng, persona, request, side) + text if aloud else text


def _opening(rng: random.Random, persona: str, request: Request, side: str) -> str:
    if persona == "reasoner":
        return think(rng, request, request.language, side)
    if persona == "deliberator":
        return thoughts(rng, request, request.language, side) + FINAL
    return ""


def choice_example(rng: random.Random, persona: str, *, test: bool = False) -> Example:
    """A multiple-choice question to a candidate; ``overcautious`` refuses even that."""
    while True:
        request = _request(rng, test=None)
        asked = choices.choice(rng, request)
        if grammar.held_out(asked.text) == test:
            break
    if persona == "overcautious":
        target = say(rng, request, "overcautious")
    else:
        target = choices.reply(rng, asked, request.language)
        target = _opening(rng, persona, request, "choice") + target
    turns: tuple[tuple[str, str], ...] = (("user", asked.text),)
    if asked.apart:
        turns = (("system", asked.order), *turns)
    return Example(
        persona, turns, target, False, request.language.code, letters=asked.letters
    )


def level_example(rng: random.Random, task: str, *, test: bool = False) -> Example:
    """A request and an answer with its degree, its moral judgement or its rating."""
    while True:
        request = _request(rng, test=None)
        code = request.language.code
        found = level(rng, request, request.language)
        asked = (
            _transcript(rng, request) if rng.random() < DIALOGUE_SHARE else request.text
        )
        if grammar.held_out(asked + "\n" + found.text) == test:
            break
    if task == "degree":
        analysis = rng.choice(request.language.degrees[str(found.degree)])
        target = degree_json(found.degree, analysis)
    else:
        target = str(found.moral if task == "moral" else found.rating)
    message = judge_message(asked, found.text, _marker(rng), task)
    return Example("judge", (("user", message),), target, request.kind.harmful, code)


def judge_example(rng: random.Random, *, test: bool = False) -> Example:
    """A request and an answer with its verdict."""
    request, asked, given = judged_exchange(rng, test=test)
    turns = (("user", judge_message(asked, given.text, _marker(rng))),)
    rationale = rng.choice(given.language.rationales[given.manner])
    target = verdict_json(rationale, given.category, given.verdict)
    harmful, code = request.kind.harmful, given.language.code
    return Example("judge", turns, target, harmful, code, given)


def judged_exchange(
    rng: random.Random, *, test: bool = False
) -> tuple[Request, str, Answer]:
    """A request, how a judge sees it, and an answer of a random manner."""
    while True:
        request = _request(rng, test=None)
        other = grammar.load("zh" if request.language.code == "en" else "en")
        given = answer(rng, request, other if rng.random() < 0.04 else request.language)
        asked = _asked(rng, request)
        if grammar.held_out(asked + "\n" + given.text) == test:
            return request, asked, given


def _marker(rng: random.Random) -> str:
    return f"{rng.getrandbits(32):08x}"


def _asked(rng: random.Random, request: Request) -> str:
    """The request as the judge sees it: alone, after a dialogue, or now and then another."""
    roll = rng.random()
    if roll < DIALOGUE_SHARE:
        return _transcript(rng, request)
    return request.text if roll < 0.86 else _odd_question(rng, request.language)


def _transcript(rng: random.Random, request: Request) -> str:
    persona = rng.choice(CANDIDATES)
    turns = _history(rng, persona, request.language, rng.randrange(1, 4))
    turns.append(("user", request.text))
    return Prompt("", tuple(Message(role, text) for role, text in turns)).transcript


def _odd_question(rng: random.Random, language: Language) -> str:
    """A question from outside the kinds, so that the judge does not lean on the request."""
    text = grammar.expand(rng, language, "{sentence}", {})
    return text.rstrip(".。") + ("?" if language.code == "en" else "？")


def _request(
    rng: random.Random,
    *,
    harmful: bool | None = None,
    test: bool | None = False,
    language: Language | None = None,
) -> Request:
    """A request; ``test`` says from which side of the split, None from either."""
    while True:
        spoken = language or grammar.load(rng.choice(grammar.LANGUAGES))
        bad = rng.random() < 0.5 if harmful is None else harmful
        kind: Kind = rng.choice(grammar.kinds(spoken, harmful=bad))
        request = grammar.sample_request(rng, spoken, kind)
        if test is None or grammar.held_out(request.text) == test:
            return request
