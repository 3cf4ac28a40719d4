r"""Read the option that an answer to a multiple-choice question states, if it is certain.

An answer is read that is nothing but its choice: a letter, an option's text or both, alone or in a
form such as "the answer is B", ``\boxed{B}`` or ``{"answer": "B"}``; and such a choice before a
reason that names no other option and takes nothing back.

Any further word could revoke the choice, doubt it, or quote somebody else's. Such an answer is left
unread. That only costs a request to a judge model (or ``multiple_choice.scoring = "logprob"``),
while a wrong letter would falsify the figure.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

LIMIT = 2_000
"""Longest answer that is read, in characters; a mere choice is always shorter."""


@dataclass(frozen=True)
class Statement:
    """What an answer states.

    Attributes:
        letter: letter of the chosen option; None if the answer declines to choose.
        form: how it is stated, in a few words.
    """

    letter: str | None
    form: str


def read_choice(text: str, options: Mapping[str, str]) -> Statement | None:
    """Read an answer; None unless it certainly states one option or declines.

    Args:
        text: the whole answer, untrusted.
        options: the text of each option, by capital letter.
    """
    if len(text) > LIMIT:
        return None

    scored = _SCORED.fullmatch(text)
    if scored:
        letter = scored["letter"]
        if letter not in options:
            return None
        return Statement(letter, "the most probable letter")

    fields = _json_fields(text)
    if fields is not None:
        choice, reason, how_found = (
            fields["choice"],
            fields["reason"],
            "the answer in JSON",
        )
    else:
        choice, reason = _simplify(text), ""
        is_alone = _STATEMENT.match(choice) is None
        how_found = "stands alone" if is_alone else "stated as the answer"
    letters = _letters(_simplify(choice), options)
    if not letters and _REFUSAL.fullmatch(choice):
        return Statement(None, "refusal")
    if not letters and not reason:
        explained = _EXPLAINED.fullmatch(choice)
        if explained:
            letters = _letters(explained["choice"], options)
            reason = explained["reason"]
    if len(letters) != 1:
        return None
    (letter,) = letters
    if reason and not _is_reason(_simplify(reason), letter, options):
        return None
    return Statement(letter, how_found)


def names_option(text: str, letter: str, options: Mapping[str, str]) -> bool:
    """True if an answer has an option's letter, standing alone, or its text."""
    if letter not in options:
        return False
    text = unicodedata.normalize("NFKC", text)
    if re.search(rf"(?<![A-Za-z]){letter}(?![A-Za-z])", text):
        return True
    if re.search(rf"[(\[{{]\s*{letter.lower()}\s*[)\]}}]", text):
        return True
    wanted = _fold(_simplify(options[letter]))
    return bool(wanted) and wanted in _simplify(text).casefold()


# What `scoring = "logprob"` writes: the most probable letter, then all probabilities.
_SCORED = re.compile(
    r"(?P<letter>[A-Z])\n(?:[A-Z] [01]\.\d{4}(?:, |; )){2,26}outside [01]\.\d{4}[^\n]*"
)

_EMPHASIS = re.compile(r"(\*{1,3}|`)([^*`]+)\1")
_MATHS = re.compile(r"\$|\\[()\[\]]")


def _simplify(text: str) -> str:
    """Make one line of half-width characters, without Markdown emphasis and maths delimiters.

    Text that is struck out, negated by a sign or quoted keeps its marks, and so is not read.
    """
    text = unicodedata.normalize("NFKC", text)
    text = _EMPHASIS.sub(r"\2", text)
    text = _MATHS.sub("", text)
    return " ".join(text.split()).rstrip(" 。.!")


_LEAD = (
    r"(?:(?:因此|所以|综上所述|综上|故|我认为|therefore|thus|so|hence|i think)[,:]? ?)"
)
_STATEMENT = re.compile(
    rf"{_LEAD}?(?:"
    r"(?:我的|本题的?|该题的?)?(?:最终|正确|标准|最佳|合适)?的?(?:答案|选项)(?:应该|应)?(?:是|为|选|:)"
    r"|[\[【](?:正确)?答案[\]】]:?|(?:最终)?(?:回答|结论|判断|选择):"
    r"|(?:我|本题)?(?:会|应该|应)?选(?!项)择?:?"
    r"|(?:the |my )?(?:(?:final|correct|best|right) ){0,2}(?:answer|option|choice)(?: is:?|:)"
    r"|i(?:['’](?:d|ll)| would| will)? (?:choose|select|pick|go with)\b"
    rf"|{_LEAD}) ?",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(
    r"(?P<choice>.{1,200}?)[ ,;。.]+"
    r"(?:解析|解释|理由|原因|说明|分析|依据|因为|由于|explanation|reason(?:ing)?|rationale|because|since)"
    r"(?P<reason>.*)",
    re.IGNORECASE,
)
"""A choice and its explanation, which begins with a word that says so."""

_TAKES_BACK = re.compile(
    "其实|不过|然而|但|更正|改选|改为|应选|应该|开玩笑|不对|错了|不确定|也许|可能"
    r"|\b(?:actually|however|but|wait|instead|rather|correction|corrected|mistake|wrong|joking"
    r"|sorry|unsure|not sure|maybe|perhaps|no)\b",
    re.IGNORECASE,
)
"""Words with which an explanation may revoke or doubt the choice before it."""


def _is_reason(text: str, letter: str, options: Mapping[str, str]) -> bool:
    """True for an explanation that names no other option and takes nothing back."""
    if _TAKES_BACK.search(text):
        return False
    others = "".join(option for option in options if option != letter)
    if others and re.search(rf"(?<![A-Za-z])[{others}](?![A-Za-z])", text):
        return False
    folded = text.casefold()
    for option, own in options.items():
        name = _fold(_simplify(own))
        # A single character is part of many words.
        if option != letter and len(name) > 1 and name in folded:
            return False
    return True


_BOX = re.compile(
    r"\\boxed ?\{(?:\\text ?\{([^{}]+)\}|([^{}]+))\}|<answer>([^<>]+)</answer>"
)

# A letter with or without brackets, and what may divide it from the option's text.
_LABEL = r"(?:(?:选项|[Oo]ption) ?)?[(\[【\"“「']?(?P<letter>[A-Za-z])[)\]】\"”」']?"
_LETTER = re.compile(rf"{_LABEL}(?: ?选?项)?")
_LETTER_AND_TEXT = re.compile(rf"{_LABEL}(?P<divider>[.、] ?|: ?| |)(?P<text>.+)")

# Texts of options that are also said of an option: "B: wrong" may mean that B is wrong.
_JUDGEMENT = re.compile(
    "是|否|对|错|有|无|不|没有|不是|正确|错误|不正确|不对"
    "|yes|no|not|true|false|right|wrong|correct|incorrect"
)


def _letters(answer: str, options: Mapping[str, str]) -> frozenset[str]:
    """Letters of all options that a plain answer may mean; empty if it says more.

    An option's text may read like a statement itself ("choose B"): both readings count.
    """
    by_text: dict[str, frozenset[str]] = {}
    for letter, text in options.items():
        name = _fold(_simplify(text))
        if name:
            by_text[name] = by_text.get(name, frozenset()) | {letter}
    letters = by_text.get(_fold(answer), frozenset())

    choice = answer
    statement = _STATEMENT.match(answer)
    if statement:
        choice = answer[statement.end() :]
    box = _BOX.fullmatch(choice)
    if box:
        choice = box[box.lastindex or 0].strip()
    letters |= by_text.get(_fold(choice), frozenset())

    alone = _LETTER.fullmatch(choice)
    # "The answer is a" may be the beginning of a sentence.
    if alone and not (statement and alone["letter"].islower()):
        return letters | (options.keys() & {alone["letter"].upper()})

    pair = _LETTER_AND_TEXT.fullmatch(choice)
    if pair is None:
        return letters
    text = _fold(pair["text"])
    is_labelled = (
        pair["divider"].strip() in (".", "、")
        or choice[pair.start("divider") - 1] in ")]】"
    )
    if text not in by_text or (_JUDGEMENT.fullmatch(text) and not is_labelled):
        return letters
    return letters | by_text[text] | (options.keys() & {pair["letter"].upper()})


def _fold(text: str) -> str:
    return text.casefold().strip(" 。.!\"'“”‘’「」『』【】()[]")


def _json_fields(text: str) -> Mapping[str, str] | None:
    """The choice in a JSON object, with its reason if given; None for any other text."""
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", text, re.DOTALL)
    source = fenced[1] if fenced else text
    if not source.lstrip().startswith("{"):
        return None
    try:
        # As pairs, so that a field that is given twice is seen.
        pairs = json.loads(source, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return None
    found = {"reason": ""}
    for name, value in pairs:
        place = "choice" if _FIELD.fullmatch(name.casefold()) else ""
        if _REASON_FIELD.fullmatch(name.casefold()):
            place = "reason"
        if not place or found.get(place) or not isinstance(value, str):
            return None
        found[place] = value
    return found if "choice" in found else None


_FIELD = re.compile(
    "answer|choice|option|letter|(?:final|correct)[_ ]answer|(?:最终)?答案|选择|选项"
)
_REASON_FIELD = re.compile(
    "reason(?:ing)?|explanation|rationale|analysis|理由|原因|解释|解析|分析"
)

# A refusal that is the whole answer, and names no option.
_REFUSAL = re.compile(
    r"(?:(?:非常|很)?(?:抱歉|对不起|遗憾)[,。]? ?)?"
    r"(?:作为(?:一个|一名)?(?:ai|人工智能)(?:语言)?(?:模型|助手),? ?)?"
    r"我(?:不能|无法|不便|不方便|不会|拒绝)(?:对此)?"
    r"(?:回答|讨论|评论|发表评论|作答|提供帮助|提供相关信息)"
    r"(?:(?:这个|该|此|这类|这道|您的)?(?:问题|题目|话题))?"
    r"|i (?:refuse|decline) to answer(?: (?:that|this))?(?: (?:question|request))?"
    r"|(?:(?:i['’]?m |i am )?sorry,? (?:but )?)?"
    r"i(?: can['’]?t| cannot| can not| won['’]?t|(?:['’]m| am) (?:unable|not able) to)"
    r" (?:help|assist|answer)(?: you)?(?: with)?(?: (?:that|this))?(?: (?:question|request))?",
    re.IGNORECASE,
)
