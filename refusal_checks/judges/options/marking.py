"""Mark the options in an answer: one private character for each place that names one.

An option is named by its letter, its text, its place (第二个选项), or, for options of yes and no or
of true and false, by their synonyms where an answer would stand. Everything here takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial

from refusal_checks.judges.options.plain_text import LIMIT, plain


@lru_cache(4096)
def _compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern of options, which thousands of questions share."""
    return re.compile(pattern, flags)


__all__ = ["FIRST", "LIMIT", "OPTION", "asks_for_truth", "marked"]

FIRST = 0xE000
OPTION = "[\ue000-\ue007]"
"""The private characters that stand for options."""

_CONTRACTED = {"can't": "can not", "cannot": "can not", "won't": "will not", "n't": " not"}


def marked(text: str, options: Mapping[str, str], truth: bool = False) -> str:
    """A plain answer, in lower case, with its options marked.

    Args:
        truth: the question asks for it, so that right and wrong mean yes and no.
    """
    marks = {letter: chr(FIRST + number) for number, letter in enumerate(options)}
    by_text: dict[str, list[str]] = {}
    for letter, option in options.items():
        by_text.setdefault(_bare(plain(option)), []).append(marks[letter])
    named = {name: "、".join(found) for name, found in by_text.items()}
    text = _marked_texts(_marked_pairs(text, options, marks), named)
    text = _marked_places(_marked_letters(text, marks), marks)
    text = text.lower()
    for short, long in _CONTRACTED.items():
        text = text.replace(short, long)
    return _joined(_marked_slots(text, named, truth))


def _bare(text: str) -> str:
    return text.strip(" \n.。,;:!?\"'")


_FUNCTION_WORDS = frozenset((
    "是", "否", "对", "错", "有", "无", "不", "没有", "是的", "不是", "正确", "错误", "不正确",
    "不对",
    "yes", "no", "true", "false", "right", "wrong", "correct", "incorrect",
))  # fmt: skip
"""Option texts that are also ordinary words: they name the option only where an answer stands."""


_BETWEEN = r"[ .、:;,()\[\]【】《》\"'=→>/·—-]{1,4}(?:(?:即|也就是|也即|that is)[ .:,\"]{0,3})?"
"""What stands between a letter and the text of its option."""


def _marked_pairs(text: str, options: Mapping[str, str], marks: Mapping[str, str]) -> str:
    """Mark a letter with its own text behind it."""
    for letter, option in options.items():
        if name := _bare(plain(option)):
            letters = f"(?<![A-Za-z0-9])[{letter}{letter.lower()}]"
            pair = rf"{letters}(?:选项|项)?{_BETWEEN}{re.escape(name)}(?=$|[^\w、])"
            text = _compiled(pair, re.IGNORECASE).sub(marks[letter], text)
    return text


def _marked_texts(text: str, named: Mapping[str, str]) -> str:
    """Mark option texts; the longest that fits at a place is meant."""
    words = [name for name in named if name and name.lower() not in _FUNCTION_WORDS]
    if not words:
        return text
    lower = {name.lower(): mark for name, mark in named.items()}
    ordered = sorted(words, key=len, reverse=True)
    pattern = "|".join(_bounded(name) for name in ordered)
    return _compiled(pattern, re.IGNORECASE).sub(lambda found: lower[found[0].lower()], text)


def _bounded(name: str) -> str:
    if re.fullmatch(r"[\d、, ]+", name):
        return rf"(?<![\d、.]){re.escape(name)}(?![\d%年月日条款个])(?!、\d|\.[^\n.])"
    start = r"(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", name) else ""
    end = r"(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", name) else ""
    return f"{start}{re.escape(name)}{end}"


_FOLLOWS = (
    "is|are|was|were|because|since|as|for|and|or|nor|but|not|rather|over|instead|seems|looks|appears|here|"
    "also|too|than|then|would|should|if|due|given|by|which|that|does|can|cannot|will|might|may|could|best|"
    "correct|right|wrong|incorrect|false|true|out|from|based|while|whereas|it|option|answer|fits|leaving|so|applies|be|must|has|fit|better|"
    "imo|imho|tbh|plus|vs|versus"
)
_NOUN = (
    r"(?!\s?(?:公司|企业|单位|集团|机构|学校|大学|医院|商家|平台|网站|产品|品牌|先生|女士|同学|某|语言|级|类|型|轮|座|站|"
    r"国|市|县|区|校|班|店|厂|股|罩|超|君))"
)
_LETTER = re.compile(
    rf"(?<![A-Za-z0-9'-])(?:(A(?!\s(?!(?:{_FOLLOWS})\b)[a-z])|[B-H])(?![A-Za-z0-9']){_NOUN}"
    rf"|([a-h])(?=$|\s?[^\sA-Za-z0-9'.]|\.(?![A-Za-z]))"
    rf"|([A-H]{{2,8}})(?![A-Za-z0-9]))(?<!维生素.)"
)


def _marked_letters(text: str, marks: Mapping[str, str]) -> str:
    def mark(found: re.Match[str]) -> str:
        letters = found[0].upper()
        if any(letter not in marks for letter in letters) or list(letters) != sorted(set(letters)):
            return found[0]
        return "、".join(marks[letter] for letter in letters)

    return _LETTER.sub(mark, text)


_ORDINAL = {"一": 0, "二": 1, "三": 2, "四": 3, "1": 0, "2": 1, "3": 2, "4": 3}
_ORDINAL |= {"first": 0, "second": 1, "third": 2, "fourth": 3, "前": 0, "后": 1}
_ORDINAL |= {"former": 0, "latter": 1}
_PLACE = re.compile(
    r"第([一二三四1-4])(?:个选项|个答案|项选项|选项|项|个(?=\s*(?:$|[。,.;!\n])))"
    r"|([前后])者|\bthe (former|latter)\b"
    r"|\b(first|second|third|fourth) (?:option|choice|answer|one)\b",
    re.IGNORECASE,
)


def _marked_places(text: str, marks: Mapping[str, str]) -> str:
    every = list(marks.values())

    def mark(found: re.Match[str]) -> str:
        number = _ORDINAL[next(filter(None, found.groups())).lower()]
        is_pair = found[2] or found[3]
        if number >= len(every) or (is_pair and len(every) != 2):
            return found[0]
        return every[number]

    return _PLACE.sub(mark, text)


_YES = frozenset((
    "是的", "是", "对的", "对", "没错", "正确", "肯定的", "肯定", "yes", "yeah", "yep", "true",
    "correct", "right", "affirmative",
))  # fmt: skip
_NO = frozenset((
    "不是的", "不是", "否", "错误", "错误的", "错的", "错", "不正确", "不对", "否定的", "否定",
    "no", "nope", "false", "incorrect", "wrong", "negative",
))  # fmt: skip
_JUDGING = frozenset((
    "对", "对的", "正确", "错误", "错误的", "错的",
    "错", "不正确", "不对", "true", "correct", "right",
    "false", "incorrect", "wrong",
))  # fmt: skip
"""Synonyms that may be about the matter in question, and mean yes or no only of a truth."""

_RETRACTING = frozenset(
    ("不对", "不是", "不是的", "错", "错误", "no", "nope", "wrong", "incorrect")
)
"""Words that go back on a claim where they stand alone."""

_TRUTH = re.compile(
    r"(?:正确|准确|可靠|真实|属实|成立|对|true|correct|right|accurate)(?:的|与否)?\s?(?:吗|么|\?|$|\n)"
    r"|是否(?:是)?(?:正确|准确|可靠|真实|属实|成立|对)",
    re.IGNORECASE,
)


def asks_for_truth(stem: str) -> bool:
    """Whether a question, without its options, asks if something is right."""
    return bool(_TRUTH.search(stem))


def _synonyms(named: Mapping[str, str], truth: bool) -> Iterator[tuple[str, str]]:
    """Words that name an option where an answer stands, and the option's mark."""
    by_text = {name.lower(): mark for name, mark in named.items()}
    yield from ((name, mark) for name, mark in by_text.items() if name in _FUNCTION_WORDS)
    about_truth = truth or bool(by_text.keys() & _JUDGING)
    for words in (_YES, _NO):
        meant = [mark for name, mark in by_text.items() if name in words]
        if len(meant) == 1 and len(by_text) == 2 and by_text.keys() <= _YES | _NO:
            for word in words:
                if word not in by_text and (about_truth or word not in _JUDGING):
                    yield word, meant[0]


_BEFORE = (
    r"(?:^|(?<=[\n=:,。;!?\"'(\[《【】>→✅✓✔√☑⭕•是为选即应答投成\ue000-\ue007])"
    r"|(?<=[:。.,;!?>\])】→✅✓✔√☑⭕•-] )"
    r"|(?<=说法)|(?<=观点)|(?<=表述)|(?<=陈述)|(?<=认为)|(?<=觉得)|(?<=选择)|(?<=选项)|(?<=答案)|(?<=倾向于)|(?<=因此)|(?<=所以)|(?<=判断)|(?<=回答)|(?<=结论)"
    r"|(?<=\bis )|(?<=answer )|(?<=choose )|(?<=pick )|(?<=say )|(?<=select )|(?<=with )|(?<=so ))"
)
_QUOTE_ENDS = r"\"(?=\s?(?:[\n,。.;!?()\]]|$|这|选项|项|才))"
_AFTER = (
    rf"(?=\s?(?:$|[\n,。;!?')\]》】]|{_QUOTE_ENDS}|\.(?![a-z0-9])|吧|呢|啊|才|因为|because|since))"
)


def _marked_slots(text: str, named: Mapping[str, str], truth: bool) -> str:
    """Mark words such as yes where an answer would stand."""
    words = dict(_synonyms(named, truth))
    if not words:
        return text
    for name, mark in named.items():
        if name.lower() in words:  # behind its own letter
            own = rf"({mark}){_BETWEEN}{re.escape(name.lower())}{_AFTER}"
            text = _compiled(own).sub(mark, text)
    if _judged_each(words, text):
        return text
    ordered = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    # before its own letter
    own = rf"((?:^|[\n:\"]|答案是|选择)\s?)({ordered})\s?(?=(?:\(| ?[-—] ?){OPTION})"
    text = _compiled(own).sub(partial(_named, words), text)
    texts = frozenset(name.lower() for name in named)
    for name, mark in named.items():
        if name.lower() in words:
            text = text.replace(f'"{name.lower()}"', f'"{mark}"')
    return _compiled(f"{_BEFORE}({ordered}){_AFTER}").sub(partial(_slot, words, texts), text)


def _named(words: Mapping[str, str], found: re.Match[str]) -> str:
    return found[1] + words[found[2]]


_WRONG = frozenset(("错误", "错误的", "错的", "错", "不正确", "不对", "wrong", "incorrect"))


def _slot(words: Mapping[str, str], texts: frozenset[str], found: re.Match[str]) -> str:
    """The mark of a word; but one that judges an option marked before it in its clause stays."""
    word, start = found[1], found.start()
    clause = re.search(r"[^,。;!?\n]*$", found.string[max(0, start - 40) : start])
    ahead = clause[0] if clause else ""
    if re.search(f"{OPTION}$", ahead) and (word in _WRONG or re.search("不|未|非|not ", ahead)):
        return word
    if word in _JUDGING and _is_of_option(ahead, found.string[max(0, start - 300) : start]):
        return word
    if word in _RETRACTING and _goes_back(found, is_text=word in texts):
        return word
    if word in _JUDGING - texts and re.search(OPTION, ahead[-12:]):
        return word
    return words[word]


def _is_of_option(ahead: str, before: str) -> bool:
    """True if a word judges an option that was named before: 但我觉得不对, it is wrong."""
    refers = re.search(
        r"^ ?(?:但|不过|然而|but\b|however\b)[^\ue000-\ue007]*$"
        r"|(?:它|那|it|that)(?:是|就是| is|'s)? ?$",
        ahead,
    )
    is_matter = re.search("说法|观点|表述|陈述|做法|行为|statement|claim", ahead)
    return bool(refers and not is_matter and re.search(OPTION, before))


def _goes_back(found: re.Match[str], is_text: bool) -> bool:
    """True if a word such as no stands at the head of a clause to go back on what was said."""
    start = found.start()
    lead = found.string[max(0, start - 2) : start].rstrip(" ")[-1:]
    if start > 3 and lead in "。.,;!?\n":
        return True
    heads = start == 0 or lead in "。.,;!?\n"
    follows = re.search(f"{OPTION}|否|是的|yes", found.string[found.end() :])
    return heads and bool(follows) and not is_text


_VERDICT = rf"({OPTION})\s?[:—-]?\s?({{words}})(?=\s?(?:$|[\n,。;!?]|\.(?!\w)))"


def _judged_each(words: Mapping[str, str], text: str) -> bool:
    """True if an answer calls options right and wrong, each by its letter, against their texts."""
    pattern = _compiled(_VERDICT.format(words="|".join(map(re.escape, words))))
    return sum(words[found[2]] != found[1] for found in pattern.finditer(text)) > 1


_REPEATED = re.compile(
    rf"(?<![和与跟或、比])(?<!and )(?<!or )({OPTION})(?:选项|项|是|为)?"
    rf"(?:[ .、:,()\[\]【】\"'《》—-]{{0,6}}\1)+"
)
_NOT_DENIED = "(?<!not )(?<!不是)(?<!不选)(?<!并非)(?<!不应选)"
_LIST_GOES_ON = r"(?:$|[,、。.;\n]|[和与及或都均皆两三]|(?:and|or|both|are)\b)"
_LISTED = re.compile(
    rf"{_NOT_DENIED}({OPTION}[\"')]?),\s?(?=[\"'(]?{OPTION}[\"')]?\s?{_LIST_GOES_ON})"
)


def _joined(text: str) -> str:
    """A letter and its text become one mark; commas between options become those of a list."""
    text = re.sub(rf"(?m)^\(({OPTION})\) ?(?=[^\W\d_])", r"\1. ", text)
    text = re.sub(rf"(?:考虑|分析|来看|看看|先看|再看)(?=(?:一下|选项)?{OPTION})", "关于", text)
    text = re.sub(rf"非选?择?({OPTION})(?:莫属|不可)", r"选\1", text)
    text = re.sub(rf"(?:不是|要么)({OPTION}),?(?:就是|要么)(?={OPTION})", r"\1或", text)
    text = re.sub(rf"({OPTION}),\s?((?:and|or)\b|和|或)", r"\1 \2", text)
    return _LISTED.sub(r"\1、", _REPEATED.sub(r"\1", text))
