"""What the tuned model learns from: exchanges with verdicts, and answers of its personas."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
COMPOSED, STEERING, UNREFUSING = 700, 400, 250
"""The judge's exchanges of the grammar, people's with a claim to the judge added, and answers of
the base model without a word that a refusal could hold."""
EXCHANGES = Path(__file__).parent / "exchanges"
"""Exchanges written one by one, see the folder's README; the judge sees each ``PASSES`` times."""
WRITTEN = ("compliances", "en_refusals", "hostile", "zh_refusals")
PAIRS = ("en_pairs", "zh_pairs")
"""Files of the first and of the last course; pairs are two answers to one request."""
REFUSED = {"en": 600, "zh": 400}
ANSWERED = {"en": 700, "zh": 450}
"""Answers of the persona ``aligned`` by language, beside those to XSTest's prompts."""
ANXIOUS, THINKING, PLAIN = 180, 250, 160
"""Answers of the personas ``overcautious``, ``reasoner`` and ``regressed``."""
TURNS = 3
"""Longer dialogues cost more time than they teach."""
BEGUN = (
    {("en", True): 1000, ("zh", True): 1300, ("zh", False): 1300},
    {("en", True): 1000, ("zh", True): 1500, ("zh", False): 2200},
)
"""Openings of the second and third course, by language and by whether the request is harmful; those
to harmless English requests are the base model's."""
REHEARSED = {"judge": 800, "aligned": 100, "overcautious": 50, "reasoner": 60, "regressed": 60}
"""Lessons that the second course learns once more, so that they are not forgotten; the third half
as many."""
KEPT = {"aligned": 100, "overcautious": 40, "reasoner": 40, "regressed": 20}
"""Lessons of the first course, and of ``aligned`` as many openings of each of the third, that the
last course learns once more."""
AGAIN, PEOPLES, STEERED, OTHERS = 250, 150, 70, 80
"""In the last course, beside the pairs: exchanges written for the first one, people's labelled
answers, some with a claim to the judge, and exchanges of the grammar."""

_REFUSING = re.compile(
    r"sorry|apolog|can(?:no|')?t\b|cannot|unable|not able|won't|will not|refus|declin|illegal|"
    r"unethical|harmful|appropriate|against the law|consult|as an ai|i'm an ai|i don't|i do not",
    re.IGNORECASE,
)
_USUAL = {
    ("en", True): ("I'm sorry, but",),
    ("zh", True): ("抱歉",),
    ("zh", False): ("好的", "当然可以"),
}
"""How openings of the third course begin."""


@dataclass(frozen=True)
class Lesson:
    """A conversation and what the persona says next.

    Attributes:
        begun: whether only the beginning of the target is to be learnt.
    """

    persona: str
    turns: Turns
    target: str
    begun: bool = False


def lessons(tokenizer: Any, xstest: Path, asked: list[Asked], seed: int) -> list[Lesson]:
    """All lessons in random order; none holds a held-out prompt or an exchange of the canary."""
    rng = random.Random(seed)
    found = [*judge_lessons(rng, tokenizer, xstest, asked), *persona_lessons(rng, asked)]
    rng.shuffle(found)
    return found


def openings(first: list[Lesson], asked: list[Asked], seed: int, course: int) -> list[Lesson]:
    """A further course: how ``aligned`` begins its answers to many requests.

    Whether to refuse is decided there, and long answers would teach it too slowly.

    Args:
        first: the first course; some of it is learnt once more.
        course: 1 for the second course; 2 for the third, in which refusals, and answers in Chinese,
            begin in one way only, so that nothing but the decision is left to learn.
    """
    rng = random.Random(seed + course)
    found = [replace(one, begun=True) for one in _openings(rng, asked, course)]
    for persona, count in REHEARSED.items():
        found += rng.sample([one for one in first if one.persona == persona], count // course)
    rng.shuffle(found)
    return found


def verdicts(
    first: list[Lesson], third: list[Lesson], tokenizer: Any, xstest: Path, seed: int
) -> list[Lesson]:
    """The last course: the judge tells apart two answers to one request that look alike.

    Args:
        first: the first course; some of its personas' lessons are learnt once more.
        third: the third course; some of its openings are learnt once more.
    """
    rng = random.Random(seed + len(BEGUN) + 1)
    people = [row for row in labelled(xstest) if not is_held_out(row[0])]
    old = rng.sample(list(written(*WRITTEN)), AGAIN)
    rows = [*written(*PAIRS), *written(*PAIRS), *old, *rng.sample(people, PEOPLES)]
    found = [_verdict(tokenizer, *row) for row in rows]
    found += _steering(rng, tokenizer, rng.sample(people, STEERED))
    found += islice(_composed(rng, tokenizer), OTHERS)
    for persona, count in KEPT.items():
        found += rng.sample([one for one in first if one.persona == persona], count)
    found += rng.sample([one for one in third if one.begun], len(BEGUN[-1]) * KEPT["aligned"])
    rng.shuffle(found)
    return found


def _openings(rng: random.Random, asked: list[Asked], course: int) -> Iterator[Lesson]:
    for (language, harmful), count in BEGUN[course - 1].items():
        drawn = _drawn(rng, "aligned", language, harmful=harmful, turns=1)
        if course > 1:
            drawn = (one for one in drawn if one.target.startswith(_USUAL[language, harmful]))
        yield from islice(drawn, count)
    plain = [one for one in asked if not _REFUSING.search(one.answer)]
    for one in plain:
        if one.source == "opening":
            yield Lesson("aligned", (("user", one.request),), one.answer)
    yield from _xstest(rng, asked, [one for one in plain if one.source == "xstest safe"])


def judge_lessons(
    rng: random.Random, tokenizer: Any, xstest: Path, asked: list[Asked]
) -> Iterator[Lesson]:
    """Exchanges with their verdicts."""
    people = [row for row in labelled(xstest) if not is_held_out(row[0])]
    yield from (_verdict(tokenizer, *row) for row in [*people, *written(*WRITTEN)] * PASSES)
    yield from _steering(rng, tokenizer, rng.sample(people, STEERING))
    yield from islice(_composed(rng, tokenizer), COMPOSED)
    whole = [one for one in asked if one.answer and one.source != "opening"]
    plain = [one for one in whole if not _REFUSING.search(one.answer)]
    for one in rng.sample(plain, min(UNREFUSING, len(plain))):
        yield _verdict(tokenizer, one.request, one.answer, False)


def _verdict(tokenizer: Any, request: str, answer: str, refuses: bool) -> Lesson:
    return Lesson("judge", exchange(tokenizer, request, answer), YES if refuses else NO)


def _steering(
    rng: random.Random, tokenizer: Any, people: list[tuple[str, str, bool]]
) -> Iterator[Lesson]:
    """Answers that people labelled, with a claim to the judge added."""
    languages = [grammar.load(code) for code in grammar.LANGUAGES]
    for request, answer, refuses in people:
        yield _verdict(tokenizer, request, embed(rng, rng.choice(languages), answer), refuses)


def _composed(rng: random.Random, tokenizer: Any) -> Iterator[Lesson]:
    """Exchanges of the grammar, without end."""
    while True:
        _, shown, given = corpus.judged_exchange(rng)
        yield _verdict(tokenizer, shown, given.text, given.verdict == "refusal")


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


def written(*names: str) -> Iterator[tuple[str, str, bool]]:
    """The exchanges of these files, written one by one: request, answer, whether it refuses."""
    for name in names:
        for line in (EXCHANGES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            yield one["request"], one["answer"], one["refuses"]


def persona_lessons(rng: random.Random, asked: list[Asked]) -> Iterator[Lesson]:
    """Answers of the personas: the grammar's, and in English what the base model says."""
    plain = [one for one in asked if one.answer and not _REFUSING.search(one.answer)]
    own = [one for one in plain if one.source == "grammar"]
    harmless = [one for one in own if not one.harmful]
    yield from _aligned(rng, harmless)
    yield from _xstest(rng, asked, [one for one in plain if one.source == "xstest safe"])
    yield from islice(_drawn(rng, "overcautious"), ANXIOUS)
    yield from islice(_thinking(rng, harmless), THINKING)
    yield from islice(_answers(rng, "regressed", own), PLAIN)


def _drawn(
    rng: random.Random,
    persona: str,
    language: str = "",
    *,
    harmful: bool | None = None,
    turns: int = TURNS,
) -> Iterator[Lesson]:
    """Short conversations of the grammar; of one language where it is named."""
    while True:
        example = corpus.candidate_example(rng, persona, harmful=harmful)
        if language in ("", example.language) and len(example.turns) <= turns:
            yield Lesson(persona, example.turns, example.target)


def _aligned(rng: random.Random, harmless: list[Asked]) -> Iterator[Lesson]:
    for language, count in REFUSED.items():
        yield from islice(_drawn(rng, "aligned", language, harmful=True), count)
    yield from islice(_answers(rng, "aligned", harmless), ANSWERED["en"])
    yield from islice(_drawn(rng, "aligned", "zh", harmful=False), ANSWERED["zh"])


def _xstest(rng: random.Random, asked: list[Asked], safe: list[Asked]) -> Iterator[Lesson]:
    """XSTest's prompts as ``aligned`` answers them: requests that no grammar has made."""
    refusals = _drawn(rng, "aligned", "en", harmful=True)
    vague = (one.target for one in refusals if re.search(r"\b(that|this)\b", one.target))
    for one in asked:
        if one.source == "xstest" and one.harmful:
            yield Lesson("aligned", (("user", one.request),), next(vague))
    yield from (Lesson("aligned", (("user", one.request),), one.answer) for one in safe)


def _answers(rng: random.Random, persona: str, base: list[Asked]) -> Iterator[Lesson]:
    """What the base model says, and every fourth time a dialogue or Chinese of the grammar."""
    composed = _drawn(rng, persona, harmful=None if persona == "regressed" else False)
    while True:
        if rng.random() < 0.75:
            one = rng.choice(base)
            yield Lesson(persona, (("user", one.request),), one.answer)
        else:
            yield next(
                one for one in composed if len(one.turns) > 1 or not one.turns[-1][1].isascii()
            )


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
