"""The forms that answers come in: prose, lists, code, stories, and long answers of every kind."""

from __future__ import annotations

import random
from collections.abc import Callable

from demo.training.grammar import Given, Language, expand

Builder = Callable[[random.Random, Language, Given], str]


def comply(
    rng: random.Random, language: Language, given: Given, disclaimer: bool
) -> str:
    """An answer that gives what was asked, in one of many forms, perhaps with a caution."""
    if not disclaimer and rng.random() < 0.2:
        return tidy(
            expand(rng, language, rng.choice(("{answered}", "{regressed}")), given)
        )
    body = _body(rng, language, given)
    if disclaimer:
        note = expand(rng, language, rng.choice(("{disclaimer}", "{caveat}")), given)
        pair = (note, body) if rng.random() < 0.7 else (body, note)
        body = rng.choice(("\n\n", language.gap)).join(pair)
    return tidy(body)


def partial(rng: random.Random, language: Language, given: Given) -> str:
    """A refusal of a part with content beside it; the refusal leads more often than it follows."""
    refusal = expand(rng, language, "{long_refusal}", given).strip()
    however = rng.choice(
        ("However, ", "That said, ", "But ", "")
        if language.code == "en"
        else ("不过，", "但是，", "")
    )
    body = _body(rng, language, given)
    pair = (refusal, however + body) if rng.random() < 0.75 else (body, refusal)
    return tidy(rng.choice(("\n\n", language.gap)).join(pair))


def long_refusal(rng: random.Random, language: Language, given: Given) -> str:
    """A refusal in its first sentence, followed by much that could stand in any answer."""
    lines = ["{shut}", *["{why}"] * rng.randrange(3)]
    lines += rng.choices(
        ("{why}", "{turn}", "{body}", "{caveat}"), (4, 4, 1, 1), k=_count(rng) // 2
    )
    blocks = [lines]
    if rng.random() < 0.35:
        blocks.append([language.gap.join(("{turn}", ""))])
        text = _join(rng, language, blocks)
        text += "\n\n" + _numbered(rng, "{safe_item}", rng.randrange(2, 6))
        text += rng.choice(("", "\n\n{why}", "\n\n{long_offer}"))
    else:
        text = _join(rng, language, blocks)
    return tidy(expand(rng, language, text, given))


def late_refusal(rng: random.Random, language: Language, given: Given) -> str:
    """Much thinking aloud that gives nothing, and the refusal at its very end."""
    lines = rng.choices(
        ("{ponder}", "{sentence}", "{body}"), (4, 1, 1), k=rng.randrange(6, 30)
    )
    lines += [rng.choice(("{shut}", "{long_refusal}"))]
    return tidy(expand(rng, language, _join(rng, language, [lines]), given))


def mock_refusal(rng: random.Random, language: Language, given: Given) -> str:
    """Words of a refusal that are taken back at once, and then all that was asked."""
    text = expand(rng, language, "{plain_no}\n\n{mock}", given)
    return tidy(text + rng.choice((" ", "\n\n")) + _body(rng, language, given))


def _body(rng: random.Random, language: Language, given: Given) -> str:
    form = _long if rng.random() < 0.45 else rng.choice(_FORMS)
    return form(rng, language, given).strip()


def _count(rng: random.Random) -> int:
    """How many sentences: mostly few, now and then very many, so that positions generalise."""
    return rng.randrange(12, 36) if rng.random() < 0.06 else rng.randrange(1, 9)


def _long(rng: random.Random, language: Language, given: Given) -> str:
    """A topic sentence, then an explanation or a list with its cautions, as real answers have."""
    first = ["{lead}", *["{body}"] * rng.randrange(3)]
    rest = rng.choices(
        ("{body}", "{caveat}", "{lead}"), (7, 1, 1), k=rng.randrange(1, 11)
    )
    if rng.random() < 0.45:
        middle = _numbered(rng, "{item}", rng.randrange(2, 7))
        text = _join(rng, language, [first]) + "\n\n" + middle
        text += "\n\n" + _join(rng, language, [rest[:2], ["{end}"]])
    else:
        text = _join(rng, language, [first, rest, ["{end}"]])
    return expand(rng, language, text, given)


def _join(rng: random.Random, language: Language, blocks: list[list[str]]) -> str:
    """Sentences in paragraphs: the blocks run on or stand apart."""
    between = rng.choice(("\n\n", "\n\n", language.gap))
    return between.join(language.gap.join(block) for block in blocks)


def _numbered(rng: random.Random, rule: str, count: int) -> str:
    bullet = rng.choice(("{}. ", "{}. ", "{}) ", "- ", "* ", "{}、", "Step {}: "))
    gap = rng.choice(("\n", "\n", "\n\n"))
    return gap.join(bullet.format(i + 1) + rule for i in range(count))


def _prose(rng: random.Random, language: Language, given: Given) -> str:
    parts = ["{intro}", *["{sentence}"] * _count(rng), "{outro}"]
    text = expand(rng, language, language.gap.join(parts), given)
    return text if rng.random() < 0.7 else _paragraphs(rng, text, language)


def _paragraphs(rng: random.Random, text: str, language: Language) -> str:
    stop = ". " if language.code == "en" else "。"
    return "".join(
        part + (stop.strip() + "\n\n" if rng.random() < 0.4 else stop)
        for part in text.split(stop)
    )


def _listing(rng: random.Random, language: Language, given: Given) -> str:
    text = "{intro}\n\n" + _numbered(rng, "{step}", _count(rng)) + "\n{outro}"
    return expand(rng, language, text, given)


def _code(rng: random.Random, language: Language, given: Given) -> str:
    return expand(rng, language, "{intro}\n{code}\n{sentence}{outro}", given)


def _story(rng: random.Random, language: Language, given: Given) -> str:
    lines = rng.choices(("{story}", "{sentence}"), (3, 1), k=_count(rng))
    return expand(rng, language, language.gap.join(lines), given)


def _short(rng: random.Random, language: Language, given: Given) -> str:
    return expand(
        rng, language, rng.choice(("{short}", "{haiku}", "{sentence}")), given
    )


_FORMS: tuple[Builder, ...] = (
    _prose,
    _prose,
    _prose,
    _listing,
    _listing,
    _code,
    _story,
    _short,
)


def tidy(text: str) -> str:
    """Without doubled spaces, and with a capital at the start."""
    while "  " in text:
        text = text.replace("  ", " ")
    text = text.strip()
    return text[:1].upper() + text[1:]
