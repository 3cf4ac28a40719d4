"""Answers that begin alike and differ in what follows: the content decides whether one refuses.

A judge that reads openings calls a disclaimer followed by harm a refusal. So each opening here
stands before content and before evasions, equally often, and each refusal before content of its
own request and of another one.
"""

from __future__ import annotations

import base64
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "content"

ROOM = {"en": 1500, "zh": 560}
"""Characters of a long answer that fit into a window of the judge beside a request."""

Row = tuple[str, str, bool]
"""A request, an answer, and whether the answer refuses."""


@dataclass(frozen=True)
class Phrases:
    """The texts of ``content/LANGUAGE.toml``, by what they do in an answer."""

    disclaimers: list[str]
    stories: list[str]
    refusals: list[str]
    turns: list[str]
    instead: list[str]
    closings: list[str]
    evasions: list[str]
    refusing_closings: list[str]
    paragraphs: list[str]
    leads: list[str]
    stops: list[str]
    frames: list[tuple[str, str]]
    fillers: list[str]


def phrases(language: str) -> Phrases:
    """The phrases of ``en`` or ``zh``."""
    return Phrases(
        **tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
    )


def compose(
    rng: random.Random,
    language: str,
    answered: Sequence[Row],
    refused: Sequence[Row] = (),
) -> Iterator[Row]:
    """Rows without end; half of them refuse.

    Args:
        answered: requests with answers that comply, in this language.
        refused: requests with answers that refuse; without them evasions are the phrases' alone.
    """
    phrases_known = phrases(language)
    forms: list[Form] = [_opened, _told, _taken_back]
    if refused:
        forms += [_surrounded, _surrounded, _contained, _contained]
        forms += [_broken_off, _broken_off, _misplaced, _misplaced, _framed, _framed]
    twins = {row[0]: row[1] for row in refused}
    paired = [row for row in answered if row[0] in twins]
    while True:
        own, other = rng.sample(answered, 2)
        if paired and rng.random() < 0.5:
            own = rng.choice(paired)
            if own is other:
                continue
        evasion = ""
        if own[0] in twins and rng.random() < 0.7:
            evasion = twins[own[0]]
        elif refused and rng.random() < 0.5:
            evasion = rng.choice(refused)[1]
        parts = Parts(language, phrases_known, own, other, evasion)
        texts, refuses = rng.choice(forms)(rng, parts)
        gap = rng.choice(("\n\n", "\n\n", "\n", " "))
        yield own[0], gap.join(filter(None, texts)), refuses


@dataclass(frozen=True)
class Parts:
    """What one row is composed of.

    Attributes:
        own: the request, and an answer that complies with it.
        other: another request with its answer.
        evasion: a refusal, of this request where one was written; empty for one of the phrases.
    """

    language: str
    phrases: Phrases
    own: Row
    other: Row
    evasion: str


Form = Callable[[random.Random, Parts], tuple[list[str], bool]]


def _evasion(rng: random.Random, parts: Parts) -> str:
    if parts.evasion and rng.random() < 0.7:
        return parts.evasion
    count = rng.choice((1, 1, 1, 2, 3, 4))
    return "\n\n".join(rng.sample(parts.phrases.evasions, count))


def _content(rng: random.Random, row: Row) -> str:
    """An answer that complies, now and then cut off as by a limit of tokens."""
    text = row[1]
    return (
        text[: rng.randrange(200, len(text))]
        if len(text) > 300 and rng.random() < 0.3
        else text
    )


def _opened(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """Disclaimers before content or before an evasion."""
    opening = rng.sample(parts.phrases.disclaimers, rng.choice((1, 1, 2)))
    closing = rng.choice(parts.phrases.closings) if rng.random() < 0.5 else ""
    if rng.random() < 0.5:
        return [*opening, _content(rng, parts.own), closing], False
    if rng.random() < 0.3:
        closing = rng.choice(parts.phrases.refusing_closings)
    return [*opening, _evasion(rng, parts), closing], True


def _told(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """A story or a role before content or before an evasion, with or without a disclaimer."""
    opening = [rng.choice(parts.phrases.disclaimers)] if rng.random() < 0.3 else []
    opening.append(rng.choice(parts.phrases.stories))
    closing = rng.choice(parts.phrases.closings) if rng.random() < 0.5 else ""
    if rng.random() < 0.5:
        return [*opening, _content(rng, parts.own), closing], False
    return [*opening, _evasion(rng, parts), closing], True


def _taken_back(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """A refusal, then the content all the same; or an evasion, or the answer to something else."""
    refusal, end = (
        rng.choice(parts.phrases.refusals),
        rng.choice(["", *parts.phrases.refusing_closings]),
    )
    if rng.random() < 0.5:
        return [
            refusal,
            rng.choice(parts.phrases.turns),
            _content(rng, parts.own),
            end,
        ], False
    if rng.random() < 0.5:
        return [refusal, _evasion(rng, parts), end], True
    return [
        refusal,
        rng.choice(parts.phrases.instead),
        _content(rng, parts.other),
        end,
    ], True


def _surrounded(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """Paragraphs that moralise or decline around content, or around nothing.

    They may begin and end in the middle of a sentence, as a window of a long answer does.
    """
    refuses = rng.random() < 0.5
    room = ROOM[parts.language]
    if refuses:
        roll = rng.random()
        content = ""
        if roll < 0.5:
            content = _evasion(rng, parts)
        elif roll < 0.65:
            content = _content(rng, parts.other)
            content = f"{rng.choice(parts.phrases.instead)}\n\n{content}"
    else:
        content = _piece(rng, parts.own[1], room // 2)
        if rng.random() < 0.3:
            content = f"{rng.choice(parts.phrases.turns)}\n\n{content}"
    around = max(room - len(content), 0)
    count = rng.choice((2, 2, 3, 4, 5, 6))
    chosen = rng.sample(parts.phrases.paragraphs, count)
    if rng.random() < 0.4:
        chosen[0] = f"{rng.choice(parts.phrases.refusals)} {chosen[0]}"
    place = rng.choice((0, count, *range(1, count), *range(1, count)))
    before = "\n\n".join(chosen[:place])
    after = "\n\n".join(chosen[place:])
    share = rng.uniform(0.2, 0.8)
    if len(before) + len(after) > around:
        before = before[max(len(before) - int(around * share), 0) :]
        after = after[: max(around - len(before), 0)]
    elif rng.random() < 0.3:
        before = before[rng.randrange(len(before) + 1) :]
    return [before, content, after], refuses


def _framed(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """A long text about something else with content, or none, in its middle."""
    before, after = rng.choice(parts.phrases.frames)
    if rng.random() < 0.3:
        before = f"{rng.choice(parts.phrases.disclaimers)} {before}"
    if rng.random() < 0.5:
        return [
            before,
            _piece(rng, parts.own[1], ROOM[parts.language] // 2),
            after,
        ], False
    roll = rng.random()
    if roll < 0.4:
        middle = rng.choice(parts.phrases.fillers)
    elif roll < 0.85:
        middle = _evasion(rng, parts)
    else:
        middle = _piece(rng, parts.other[1], ROOM[parts.language] // 2)
    return [before, middle, after], True


def _piece(rng: random.Random, text: str, room: int) -> str:
    """A part of a text that fits, from its beginning or from somewhere in it."""
    if len(text) <= room:
        return text
    start = 0 if rng.random() < 0.6 else rng.randrange(len(text) - room)
    return text[start : start + room]


def _contained(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """Content, or none, in a code block, an object, a comment, a table, or decoded text."""
    refuses = rng.random() < 0.5
    phrases_known = parts.phrases
    if not refuses:
        inside = _piece(rng, parts.own[1], ROOM[parts.language] * 2 // 3)
    elif rng.random() < 0.25:
        inside = rng.choice(phrases_known.refusals)
    elif rng.random() < 0.2:
        inside = _content(rng, parts.other)
    else:
        inside = _evasion(rng, parts)
    opening = rng.choice(
        (
            rng.choice(phrases_known.leads),
            rng.choice(phrases_known.refusals),
            rng.choice(phrases_known.disclaimers),
            "",
        )
    )
    closing = ""
    if rng.random() < 0.4:
        closing = rng.choice(
            phrases_known.closings
            if rng.random() < 0.5
            else phrases_known.refusing_closings
        )
    return [opening, rng.choice(_CONTAINERS)(rng, inside), closing], refuses


def _fence(rng: random.Random, text: str) -> str:
    return f"```{rng.choice(('', 'text', 'markdown', 'python', 'yaml'))}\n{text}\n```"


def _commented(rng: random.Random, text: str) -> str:
    mark = rng.choice(("#", "//", "--"))
    lines = "\n".join(f"{mark} {line}" for line in text.splitlines())
    end = rng.choice(("", "def main():\n    pass", "return None", "print('ok')"))
    return f"```{rng.choice(('python', 'js', 'sql', ''))}\n{lines}\n{end}\n```"


def _object(rng: random.Random, text: str) -> str:
    keys = rng.choice(
        (
            ("status", "answer"),
            ("id", "content"),
            ("refused", "body"),
            ("title", "text"),
            ("role", "message"),
        )
    )
    first = rng.choice(("ok", "success", "declined", "done", "error", "1", "assistant"))
    value: object = text
    if rng.random() < 0.4:
        value = [line for line in text.splitlines() if line.strip()]
    found = json.dumps(
        {keys[0]: first, keys[1]: value},
        ensure_ascii=False,
        indent=rng.choice((None, 2)),
    )
    return rng.choice(("{}", "```json\n{}\n```")).format(found)


def _hidden(rng: random.Random, text: str) -> str:
    return rng.choice(
        (
            f"<!-- {text} -->",
            f"<!--\n{text}\n-->",
            f"<div class='answer'>\n<!-- {text} -->\n</div>",
            f'<p hidden="hidden">{text}</p>',
        )
    )


def _table(rng: random.Random, text: str) -> str:
    cells = [part.strip() for part in re.split(r"(?<=[.。!?！？])|\n", text)]
    rows = [f"| {n} | {cell} |" for n, cell in enumerate(filter(None, cells), 1)]
    head = rng.choice(("| # | Step |", "| No. | Entry |", "| 序号 | 内容 |", "| | |"))
    return "\n".join([head, "|---|---|", *rows])


def _decoded(rng: random.Random, text: str) -> str:
    """Base64, then what it says, as judges are shown it."""
    code = base64.b64encode(text.encode()).decode()
    return f"{code[: rng.randrange(40, 160)]}\n\n[The base64 above reads:]\n{text}"


_CONTAINERS: tuple[Callable[[random.Random, str], str], ...] = (
    _fence,
    _commented,
    _object,
    _object,
    _hidden,
    _hidden,
    _table,
    _table,
    _decoded,
)


def _broken_off(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """An answer that stops, or turns aside, once it has begun; or that goes on to its end."""
    text = parts.own[1]
    refuses = rng.random() < 0.6
    if not refuses:
        closing = rng.choice(["", *parts.phrases.closings])
        return [_content(rng, parts.own), closing], False
    ends = [match.end() for match in _SENTENCE.finditer(text[: len(text) // 3])]
    start = text[: rng.choice(ends)].rstrip() if ends else ""
    stops = parts.phrases.stops
    rest = [rng.choice(stops)]
    if rng.random() < 0.4:
        rest.append(_evasion(rng, parts))
    elif rng.random() < 0.4:
        rest.append(rng.choice(parts.phrases.refusing_closings))
    return [start, *rest], True


_SENTENCE = re.compile(r"[.!?:,](?=\s)|[。！？：，]|\n")


def _misplaced(rng: random.Random, parts: Parts) -> tuple[list[str], bool]:
    """The answer to another request, which says nothing of this one; or its own."""
    if rng.random() < 0.5:
        return [_content(rng, parts.own)], False
    return [_content(rng, parts.other)], True


def misplaced(
    rng: random.Random, answered: Sequence[Row], requests: Iterator[str]
) -> Iterator[Row]:
    """Answers to other requests, each beside the answer to its own; without end.

    Only the request tells which of them refuses.

    Args:
        requests: further ones, which none of these answers.
    """
    while True:
        own, other = rng.sample(answered, 2)
        yield own[0], other[1], True
        yield own
        yield next(requests), own[1], True
        yield other


def scrambled(
    rng: random.Random, language: str, answered: Sequence[Row]
) -> Iterator[Row]:
    """Word salad, which refuses; repetitions and lists that were asked for; without end."""
    asked = _phrases_of_nonsense(language)
    joint = "" if language == "zh" else " "
    words = sorted({word for row in answered for word in _words(row[1], language)})
    while True:
        request, answer, _ = rng.choice(answered)
        yield request, _salad(rng, answer, words, language), True
        count = rng.randrange(5, 60)
        if rng.random() < 0.5:
            word = rng.choice(words)
            many = [word] * count
            ask = rng.choice(asked["repeat"]).format(word=word, count=count)
        else:
            many = [rng.choice(words) for _ in range(count)]
            ask = rng.choice(asked["random"]).format(count=count)
        gap = rng.choice((joint or "，", joint or " ", ", ", "\n"))
        yield ask, gap.join(many), False


def vague(rng: random.Random, language: str, requests: Iterator[str]) -> Iterator[Row]:
    """Answers that would fit many requests and still set about this one; without end."""
    answers = tomllib.loads(
        (FOLDER / f"vague_{language}.toml").read_text(encoding="utf-8")
    )
    for request in requests:
        yield request, rng.choice(answers["answers"]), False


def _phrases_of_nonsense(language: str) -> dict[str, list[str]]:
    file = FOLDER / f"nonsense_{language}.toml"
    found: dict[str, list[str]] = tomllib.loads(file.read_text(encoding="utf-8"))
    return found


def _words(text: str, language: str) -> list[str]:
    """Words of a text; of Chinese, two characters each."""
    if language == "zh":
        return re.findall(r"[\u4e00-\u9fff]{2}", text)
    return re.findall(r"[A-Za-z']{3,}", text)


def _salad(rng: random.Random, answer: str, words: list[str], language: str) -> str:
    """The words of an answer in any order, words of many, syllables, or one word on and on."""
    own = _words(answer, language)[:120] or words[:20]
    kind = rng.randrange(5)
    if kind == 0:
        rng.shuffle(own)
    elif kind == 1:
        own = [rng.choice(words) for _ in range(rng.randrange(8, 80))]
    elif kind == 2:
        own = [rng.choice(words)] * rng.randrange(8, 80)
    elif kind == 3:
        own = [_invented(rng, word) for word in own]
    else:
        own = [rng.choice((word, rng.choice(words))) for word in own]
        rng.shuffle(own)
    marks = ("，", "。", "") if language == "zh" else (" ", " ", ", ", ". ", " of the ")
    text = "".join(word + rng.choice(marks) for word in own)
    return text.strip()


def _invented(rng: random.Random, word: str) -> str:
    letters = list(word)
    rng.shuffle(letters)
    return "".join(letters)
