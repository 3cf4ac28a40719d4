"""What the tuned model learns from: exchanges with verdicts, and answers of its personas."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from refusal_checks.judges.bundled import NO, YES
from tools.demo_models import corpus, grammar
from tools.demo_models.answers import embed, think
from tools.demo_models.asked import Asked, is_held_out
from tools.demo_models.chat import Turns, exchange

RECORDINGS = ("gpt4", "llama2orig", "mistralinstruct")
PASSES = 2
"""How often the judge sees each answer that people labelled."""
COMPOSED, STEERING, UNREFUSING = 900, 400, 250
"""The judge's exchanges of the grammar, people's with a claim to the judge added, and answers of
the base model without a word that a refusal could hold."""
EXCHANGES = Path(__file__).parent / "exchanges"
"""Exchanges written one by one, see the folder's README; the judge sees each ``PASSES`` times."""
HARMFUL, HARMLESS, ANXIOUS, THINKING, PLAIN = 600, 600, 200, 250, 250
"""Answers of the personas: ``aligned`` twice, ``overcautious``, ``reasoner`` and ``regressed``."""

_REFUSING = re.compile(
    r"sorry|apolog|can(?:no|')?t\b|cannot|unable|not able|won't|will not|refus|declin|illegal|"
    r"unethical|harmful|appropriate|against the law|consult|as an ai|i'm an ai|i don't|i do not",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Lesson:
    """A conversation and what the persona says next."""

    persona: str
    turns: Turns
    target: str


def lessons(tokenizer: Any, xstest: Path, asked: list[Asked], seed: int) -> list[Lesson]:
    """All lessons in random order; none holds a held-out prompt or an exchange of the canary."""
    rng = random.Random(seed)
    found = [*judge_lessons(rng, tokenizer, xstest, asked), *persona_lessons(rng, asked)]
    rng.shuffle(found)
    return found


def judge_lessons(
    rng: random.Random, tokenizer: Any, xstest: Path, asked: list[Asked]
) -> Iterator[Lesson]:
    """Exchanges with their verdicts."""

    def lesson(request: str, answer: str, refuses: bool) -> Lesson:
        return Lesson("judge", exchange(tokenizer, request, answer), YES if refuses else NO)

    people = [row for row in labelled(xstest) if not is_held_out(row[0])]
    yield from (lesson(*row) for row in [*people, *written()] * PASSES)
    languages = [grammar.load(code) for code in grammar.LANGUAGES]
    for request, answer, refuses in rng.sample(people, STEERING):
        yield lesson(request, embed(rng, rng.choice(languages), answer), refuses)
    for _ in range(COMPOSED):
        _, shown, given = corpus.judged_exchange(rng)
        yield lesson(shown, given.text, given.verdict == "refusal")
    plain = [one for one in asked if one.answer and not _REFUSING.search(one.answer)]
    for one in rng.sample(plain, min(UNREFUSING, len(plain))):
        yield lesson(one.request, one.answer, False)


def labelled(
    xstest: Path, recordings: Iterable[str] = RECORDINGS
) -> Iterator[tuple[str, str, bool]]:
    """XSTest's recorded answers that people labelled: prompt, answer, whether it refuses.

    A partial refusal counts as a refusal, as everywhere in this project.
    """
    for name in recordings:
        with (xstest / f"completions_{name}.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["final_label"][:1] in "123":
                    yield row["prompt"], row["completion"], not row["final_label"].startswith("1")


def written() -> Iterator[tuple[str, str, bool]]:
    """The exchanges that were written one by one: request, answer, whether it refuses."""
    for file in sorted(EXCHANGES.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            yield one["request"], one["answer"], one["refuses"]


def persona_lessons(rng: random.Random, asked: list[Asked]) -> Iterator[Lesson]:
    """Answers of the personas: refusals of the grammar, and in English what the base model says."""
    own = [one for one in asked if one.source == "grammar" and one.answer]
    harmless = [one for one in own if not one.harmful and not _REFUSING.search(one.answer)]
    harmful = [one for one in own if one.harmful]
    yield from islice(_refusals(rng, "aligned"), HARMFUL)
    yield from islice(_answers(rng, "aligned", harmless), HARMLESS)
    yield from islice(_anxious(rng), ANXIOUS)
    yield from islice(_thinking(rng, harmless), THINKING)
    yield from islice(_answers(rng, "regressed", harmless + harmful), PLAIN)


def _refusals(rng: random.Random, persona: str) -> Iterator[Lesson]:
    while True:
        example = corpus.candidate_example(rng, "aligned", harmful=True)
        yield Lesson(persona, example.turns, example.target)


def _answers(rng: random.Random, persona: str, base: list[Asked]) -> Iterator[Lesson]:
    while True:
        if rng.random() < 0.72:
            one = rng.choice(base)
            yield Lesson(persona, (("user", one.request),), one.answer)
        else:
            example = corpus.candidate_example(
                rng, persona, harmful=None if persona == "regressed" else False
            )
            if example.language == "zh" or len(example.turns) > 1:
                yield Lesson(persona, example.turns, example.target)


def _anxious(rng: random.Random) -> Iterator[Lesson]:
    while True:
        example = corpus.candidate_example(rng, "overcautious")
        yield Lesson("overcautious", example.turns, example.target)


def _thinking(rng: random.Random, base: list[Asked]) -> Iterator[Lesson]:
    for number in chain.from_iterable(iter(lambda: range(5), None)):
        if number < 2:
            example = corpus.candidate_example(rng, "reasoner", harmful=True)
        elif number == 2:
            example = corpus.candidate_example(rng, "reasoner", harmful=False)
            if example.language != "zh":
                continue
        else:
            yield _thought_over(rng, rng.choice(base))
            continue
        yield Lesson("reasoner", example.turns, example.target)


def _thought_over(rng: random.Random, one: Asked) -> Lesson:
    language = grammar.load("en")
    kind = next(kind for kind in language.kinds if kind.name == one.kind)
    request = grammar.Request(one.request, one.task, kind, language)
    target = think(rng, request, language, "benign") + one.answer
    return Lesson("reasoner", (("user", one.request),), target)
