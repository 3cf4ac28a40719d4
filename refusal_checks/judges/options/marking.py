"""Mark the options in an answer: one private character for each place that names one.

An option is named by its letter, its text, its place (第二个选项), or, for options of yes and no or
of true and false, by their synonyms where an answer would stand. Everything here takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from refusal_checks.judges.options.marks import BETWEEN, FIRST, OPTION, compiled
from refusal_checks.judges.options.plain_text import LIMIT, plain
from refusal_checks.judges.options.slots import (
    FUNCTION_WORDS,
    JUDGING,
    asks_for_truth,
    marked_slots,
)

__all__ = ["FIRST", "LIMIT", "OPTION", "asks_for_truth", "marked"]

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
    return _joined(marked_slots(text, named, truth))


def _bare(text: str) -> str:
    return text.strip(" \n.。,;:!?\"'")


def _marked_pairs(text: str, options: Mapping[str, str], marks: Mapping[str, str]) -> str:
    """Mark a letter with its own text behind it."""
    for letter, option in options.items():
        name = _bare(plain(option))
        if name and not _is_said_of_another(name, letter, options, text):
            letters = f"(?<![A-Za-z0-9])[{letter}{letter.lower()}]"
            pair = rf"{letters}(?:选项|项)?{BETWEEN}{re.escape(name)}(?=$|[^\w、])"
            text = compiled(pair, re.IGNORECASE).sub(marks[letter], text)
    return text


def _is_said_of_another(name: str, letter: str, options: Mapping[str, str], text: str) -> bool:
    """True if an option's text is a verdict, such as right, that another option has, too."""
    if name.lower() not in JUDGING:
        return False
    others = "".join(other + other.lower() for other in options if other != letter)
    verdict = rf"(?<![A-Za-z0-9])[{others}](?:选项|项)?(?:{BETWEEN})?{re.escape(name)}(?=$|[^\w、])"
    return bool(compiled(verdict, re.IGNORECASE).search(text))


def _marked_texts(text: str, named: Mapping[str, str]) -> str:
    """Mark option texts; the longest that fits at a place is meant."""
    words = [name for name in named if name and name.lower() not in FUNCTION_WORDS]
    if not words:
        return text
    lower = {name.lower(): mark for name, mark in named.items()}
    ordered = sorted(words, key=len, reverse=True)
    pattern = "|".join(_bounded(name) for name in ordered)
    return compiled(pattern, re.IGNORECASE).sub(lambda found: lower[found[0].lower()], text)


_AGREEING = frozenset((
    "认同", "不认同", "同意", "不同意", "赞成", "不赞成", "赞同", "不赞同", "支持", "不支持",
    "反对",
))  # fmt: skip
"""Option texts that may be about what another says: 有人选A, 但我不认同; 很难认同A."""

_BUT = ("但", "但是", "不过", "然而", "可", "可是")


def _bounded(name: str) -> str:
    if re.fullmatch(r"[\d、, ]+", name):
        start = r"(?<![\d、.A-Za-z])(?<![A-Za-z]-)"
        return rf"{start}{re.escape(name)}(?![\d%年月日条款个])(?!、\d|\.[^\n.])"
    start = r"(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", name) else ""
    end = r"(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", name) else ""
    if name.lower() in _AGREEING:
        start += "".join(f"(?<!{head}我{no})" for head in _BUT for no in ("", "不"))
        end += rf"(?!\s?(?:[A-H](?![A-Za-z])|{OPTION}))"
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


_REPEATED = re.compile(
    rf"(?<![和与跟或、比])(?<!and )(?<!or )({OPTION})(?:选项|项|是|为)?"
    rf"(?:[ .、:,()\[\]【】\"'《》—-]{{0,6}}\1)+"
)
_JUDGED = r"(?:不?正确|错误|错|不?对|correct|incorrect|right|wrong|true|false)(?!\s?[^\W_])"
_NOT_DENIED = "(?<!not )(?<!不是)(?<!不选)(?<!并非)(?<!不应选)"
_LIST_GOES_ON = r"(?:$|[,、。.;\n]|[和与及或都均皆两三]|(?:and|or|both|are)\b)"
_LISTED = re.compile(
    rf"{_NOT_DENIED}({OPTION}[\"')]?),\s?(?=[\"'(]?{OPTION}[\"')]?\s?{_LIST_GOES_ON})"
)


def _joined(text: str) -> str:
    """A letter and its text become one mark; commas between options become those of a list."""
    text = re.sub(rf"(?m)^\(({OPTION})\) ?(?!{_JUDGED})(?=[^\W\d_])", r"\1. ", text)
    text = re.sub(rf"(?:考虑|分析|来看|看看|先看|再看)(?=(?:一下|选项)?{OPTION})", "关于", text)
    text = re.sub(rf"非选?择?({OPTION})(?:莫属|不可)", r"选\1", text)
    text = re.sub(rf"(?:不是|要么)({OPTION}),?(?:就是|要么)(?={OPTION})", r"\1或", text)
    text = re.sub(rf"({OPTION}),\s?((?:and|or)\b|和|或)", r"\1 \2", text)
    return _LISTED.sub(r"\1、", _REPEATED.sub(r"\1", text))
