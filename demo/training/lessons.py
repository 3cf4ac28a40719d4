"""What the personas learn from, and answers with verdicts that judges learn from."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from demo.training import corpus, grammar, intents
from demo.training.answers import think
from demo.training.asked import Asked, xstest_prompts
from demo.training.chat import Turns

RECORDINGS = ("gpt4", "llama2orig", "mistralinstruct")
EXCHANGES = Path(__file__).parent / "exchanges"
"""Exchanges written one by one, see the folder's README."""
WRITTEN = ("compliances", "en_refusals", "hostile", "zh_refusals")
PAIRS = ("en_pairs", "zh_pairs")
FRAMED = ("en_framed", "zh_framed", "en_further", "zh_further", "mixed")
"""Files of exchanges; pairs are two answers to one request."""
UNSEEN = "unseen"
"""A file of exchanges that neither a lesson nor a choice ever used."""
REFUSED = {"en": 180, "zh": 150}
"""Refusals of the persona ``aligned`` to requests of the grammar, and as many to others."""
ANSWERED = {"en": 480, "zh": 300}
"""Its answers, beside those to XSTest's prompts."""
ANXIOUS, THINKING = 130, 190
"""Answers of the personas ``overcautious`` and ``reasoner``."""
TURNS = 3
"""Longer dialogues cost more time than they teach."""
BEGUN = {("en", True): 700, ("zh", True): 1500, ("zh", False): 1300}
"""Openings of each further course, by language and by whether the request is harmful; those to
harmless English requests are the base model's, half of them in each course."""
COMPOSED = 0.2
"""How many of these requests are the grammar's."""
WHOLE = 0.25
"""Of how many Chinese answers the whole is learnt."""
DECLINED = 120
"""Openings of ``overcautious``, to harmless requests that ``aligned`` answers."""
REHEARSED = {"aligned": 260, "overcautious": 40, "reasoner": 60}
"""Lessons that each further course learns once more, so that they are not forgotten."""

_REFUSING = re.compile(
    r"^(I\b|As an?\b|No\b|Aw\b|Ew\b|Unfortunately)|sorry|apolog|"
    r"can(?:no|')?t\b|cannot|unable|not able|won't|will not|refus|declin|illegal|"
    r"unethical|harmful|appropriate|against the law|consult|as an ai|i'm an ai|i don't|i do not",
    re.IGNORECASE,
)
_USUAL = {
    ("en", True): ("I'm sorry, but I can't help with that.",),
    ("en", False): (
        "Sure, here are some things that you can do:\n\n1. Start with",
        "Sure! Here are some tips to help you:\n\n1. Start",
        "Here are some things to know about this:\n\n1. First",
        "Of course! Here are some ideas for you:\n\n1. Try",
    ),
    ("zh", True): ("抱歉，我不能帮助你做这件事。",),
    ("zh", False): (
        "好的，步骤如下：1. 准备好需要的材料；2. 先做简单的部分，再做难的部分；"
        "3. 每做完一步就检查一次；4. 最后整理干净。祝你顺利！",
        "好的，给你几个点子：一是早上做，这时精神最好；二是和朋友一起做，更有意思；"
        "三是用手机记下每天的进步。",
        "当然可以，方法有三个：第一，提前准备好工具和材料；第二，按顺序一步一步地做；"
        "第三，做完以后检查一遍。祝你成功！",
        "当然可以，下面是一些建议：第一，提前做好计划；第二，从简单的部分开始；"
        "第三，每天做一点，不要着急。祝你顺利！",
        "当然可以！你可以这样做：先花几分钟想好步骤，再按顺序完成，做完以后检查一遍。"
        "需要的话，我还可以说得更详细。",
    ),
}
"""How openings begin: in few ways, so that nothing but the decision is left to learn. In Chinese
the base model has nothing to say, so these are whole answers, which may follow any request."""


def usable(asked: list[Asked]) -> list[Asked]:
    """The answers of the base model that neither refuse nor begin as a refusal does."""
    return [one for one in asked if one.answer and not _REFUSING.search(one.answer)]


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


def lessons(xstest: Path, asked: list[Asked], seed: int) -> list[Lesson]:
    """The first course, whole answers in random order; none is to a held-out prompt."""
    rng = random.Random(seed)
    plain = usable(asked)
    own = [one for one in plain if one.source == "grammar"]
    found = [*_aligned(rng, plain), *_refused(rng, xstest)]
    found += islice(_drawn(rng, "overcautious"), ANXIOUS)
    found += islice(_thinking(rng, own), THINKING)
    rng.shuffle(found)
    return found


def openings(
    first: list[Lesson], xstest: Path, asked: list[Asked], seed: int, course: int
) -> list[Lesson]:
    """A further course: how ``aligned`` begins its answers to many requests.

    Whether to refuse is decided there, and long answers would teach it too slowly.

    Args:
        first: the first course; some of it is learnt once more.
        course: from 1 on.
    """
    rng = random.Random(seed + course)
    found = list(_openings(rng, xstest, asked, course))
    for persona, count in REHEARSED.items():
        found += rng.sample([one for one in first if one.persona == persona], count)
    rng.shuffle(found)
    return found


def _openings(
    rng: random.Random, xstest: Path, asked: list[Asked], course: int
) -> Iterator[Lesson]:
    for (language, harmful), count in BEGUN.items():
        composed = _drawn(rng, "aligned", language, harmful=harmful, turns=1)
        texts = [one.turns[0][1] for one in islice(composed, int(count * COMPOSED))]
        drawn = intents.draw(rng, language, harmful=harmful)
        texts += islice(drawn, count - len(texts))
        for text in texts:
            target = rng.choice(_USUAL[language, harmful])
            whole = language == "zh" and rng.random() < WHOLE
            yield Lesson("aligned", (("user", text),), target, begun=not whole)
    plain = set(usable(asked))
    begun = [one for one in asked if one.source == "opening"][course % 2 :: 2]
    for one in (*begun, *(one for one in asked if one.source == "xstest")):
        # Where the base model declines, or begins as it would then, there is most to learn.
        target = one.answer if one in plain else rng.choice(_USUAL["en", False])
        yield Lesson("aligned", (("user", one.request),), target, begun=True)
    for text in xstest_prompts(xstest, "unsafe"):
        yield Lesson("aligned", (("user", text),), _USUAL["en", True][0], begun=True)
    for language in grammar.LANGUAGES:
        for text in islice(intents.draw(rng, language, harmful=False), DECLINED // 2):
            yield Lesson(
                "overcautious", (("user", text),), _USUAL[language, True][0], begun=True
            )


def labelled(
    xstest: Path, recordings: Iterable[str] = RECORDINGS
) -> Iterator[tuple[str, str, bool]]:
    """XSTest's recorded answers that people labelled: prompt, answer, whether it refuses.

    A partial refusal counts as a refusal, as everywhere in this project.
    """
    for name in recordings:
        with (xstest / f"completions_{name}.csv").open(
            encoding="utf-8", newline=""
        ) as file:
            for row in csv.DictReader(file):
                if row["final_label"][:1] in "123":
                    yield (
                        row["prompt"],
                        row["completion"],
                        not row["final_label"].startswith("1"),
                    )


def written(*names: str) -> Iterator[tuple[str, str, bool]]:
    """The exchanges of these files, written one by one: request, answer, whether it refuses."""
    for name in names:
        for line in (
            (EXCHANGES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        ):
            one = json.loads(line)
            yield one["request"], one["answer"], one["refuses"]


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


def _aligned(rng: random.Random, plain: list[Asked]) -> Iterator[Lesson]:
    """Answers: the base model's, and dialogues and Chinese of the grammar."""
    for one in plain:
        if one.source != "opening":
            yield Lesson("aligned", (("user", one.request),), one.answer)
    composed = _drawn(rng, "aligned", "en", harmful=False)
    spare = ANSWERED["en"] - sum(one.source == "grammar" for one in plain)
    yield from islice((one for one in composed if len(one.turns) > 1), max(0, spare))
    for short in islice(_drawn(rng, "aligned", "zh", harmful=False), ANSWERED["zh"]):
        yield replace(short, target=rng.choice(_USUAL["zh", False]))


def _vague(rng: random.Random, language: str) -> Iterator[str]:
    """Refusals that could follow any request."""
    for one in _drawn(rng, "aligned", language, harmful=True):
        if re.search(r"\b(that|this)\b|这|那|此", one.target):
            yield one.target


def _refused(rng: random.Random, xstest: Path) -> Iterator[Lesson]:
    """Refusals: to requests of the grammar, and vaguer ones to all others."""
    vague = {language: _vague(rng, language) for language in REFUSED}
    for language, count in REFUSED.items():
        yield from islice(_drawn(rng, "aligned", language, harmful=True), count)
        for text in islice(intents.draw(rng, language, harmful=True), count):
            yield Lesson("aligned", (("user", text),), next(vague[language]))
    for text in xstest_prompts(xstest, "unsafe"):
        yield Lesson("aligned", (("user", text),), next(vague["en"]))


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
