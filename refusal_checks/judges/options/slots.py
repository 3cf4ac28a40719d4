"""Mark words such as yes and wrong, which name an option only where an answer stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

from refusal_checks.judges.options.marks import BETWEEN, OPTION, compiled

FUNCTION_WORDS = frozenset((
    "是", "否", "对", "错", "有", "无", "不", "没有", "是的", "不是", "正确", "错误", "不正确",
    "不对",
    "yes", "no", "true", "false", "right", "wrong", "correct", "incorrect",
))  # fmt: skip
"""Option texts that are also ordinary words: they name the option only where an answer stands."""


_YES = frozenset((
    "是的", "是", "对的", "对", "没错", "正确", "肯定的", "肯定", "yes", "yeah", "yep", "true",
    "correct", "right", "affirmative",
))  # fmt: skip
_NO = frozenset((
    "不是的", "不是", "否", "错误", "错误的", "错的", "错", "不正确", "不对", "否定的", "否定",
    "no", "nope", "false", "incorrect", "wrong", "negative",
))  # fmt: skip
JUDGING = frozenset((
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
    yield from ((name, mark) for name, mark in by_text.items() if name in FUNCTION_WORDS)
    about_truth = truth or bool(by_text.keys() & JUDGING)
    for words in (_YES, _NO):
        meant = [mark for name, mark in by_text.items() if name in words]
        if len(meant) == 1 and len(by_text) == 2 and by_text.keys() <= _YES | _NO:
            for word in words:
                if word not in by_text and (about_truth or word not in JUDGING):
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


def marked_slots(text: str, named: Mapping[str, str], truth: bool) -> str:
    """Mark words such as yes where an answer would stand."""
    words = dict(_synonyms(named, truth))
    if not words or _judged_each(words, text):
        return text
    for name, mark in named.items():
        if name.lower() in words:  # behind its own letter
            own = rf"({mark}){BETWEEN}{re.escape(name.lower())}{_AFTER}"
            text = compiled(own).sub(mark, text)
    ordered = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    # before its own letter
    own = rf"((?:^|[\n:\"]|答案是|选择)\s?)({ordered})\s?(?=(?:\(| ?[-—] ?){OPTION})"
    text = compiled(own).sub(partial(_named, words), text)
    texts = frozenset(name.lower() for name in named)
    for name, mark in named.items():
        if name.lower() in words:
            text = text.replace(f'"{name.lower()}"', f'"{mark}"')
    return compiled(f"{_BEFORE}({ordered}){_AFTER}").sub(partial(_slot, words, texts), text)


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
    if word in JUDGING and not ahead and _FITS.search(found.string[max(0, start - 60) : start]):
        return word
    if word in JUDGING and _is_of_option(ahead, found.string[max(0, start - 300) : start]):
        return word
    if word in _RETRACTING and _goes_back(found, is_text=word in texts):
        return word
    if word in JUDGING - texts and re.search(OPTION, ahead[-12:]):
        return word
    return words[word]


_FITS = re.compile(
    rf"{OPTION}[^。;!?\n\ue000-\ue007]*(?:符合|不符|不合|相符|题意)[^。;!?\n\ue000-\ue007]*,$"
)
"""An option that was said to fit the question or not, in a clause before: B符合题意，正确。"""


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


_VERDICT = (
    rf"({OPTION})\)?\s?[:=—-]?\s?({{words}})"
    rf"(?=\s?(?:$|[\n,、。;!?]|\.(?!\w)|\(?{OPTION}))"
)


def _judged_each(words: Mapping[str, str], text: str) -> bool:
    """True if an answer calls two options the same, or both against their texts."""
    pattern = compiled(_VERDICT.format(words="|".join(map(re.escape, words))))
    verdicts = {(found[1], found[2]) for found in pattern.finditer(text)}
    is_shared = len({word for _, word in verdicts}) < len(verdicts)
    return is_shared or sum(words[word] != option for option, word in verdicts) > 1
