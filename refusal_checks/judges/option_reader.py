r"""Read the option that an answer to a multiple-choice question states, if it is certain.

Only an answer that is nothing but its choice is read: a letter, an option's text or both, alone or
in a form such as "the answer is B", ``\boxed{B}`` or ``{"answer": "B"}``.

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
"""Most characters of an answer that is read; a choice alone is never as long."""


@dataclass(frozen=True)
class Statement:
    """What an answer states.

    Attributes:
        letter: letter of the chosen option; None if the answer declines to choose.
        form: how it is stated, in a few words.
    """

    letter: str | None
    form: str


def read(text: str, options: Mapping[str, str]) -> Statement | None:
    """Read an answer; None unless it states one option, or declines, for certain.

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

    in_json = _json_answer(text)
    if in_json is not None:
        return _one(_letters(_plain(in_json), options), "the answer in JSON")

    answer = _plain(text)
    letters = _letters(answer, options)
    if letters:
        is_alone = _STATEMENT.match(answer) is None
        return _one(letters, "stands alone" if is_alone else "stated as the answer")
    if _REFUSAL.fullmatch(answer):
        return Statement(None, "refusal")
    return None


def _one(letters: frozenset[str], form: str) -> Statement | None:
    if len(letters) != 1:
        return None
    (letter,) = letters
    return Statement(letter, form)


# What `scoring = "logprob"` writes: the most probable letter, then all probabilities.
_SCORED = re.compile(
    r"(?P<letter>[A-Z])\n(?:[A-Z] [01]\.\d{4}(?:, |; )){2,26}outside [01]\.\d{4}[^\n]*"
)

_EMPHASIS = re.compile(r"(\*{1,3}|`)([^*`]+)\1")
_MATHS = re.compile(r"\$|\\[()\[\]]")


def _plain(text: str) -> str:
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
    r"(?:我的|本题的?|该题的?)?(?:最终|正确|标准)?答案(?:应该|应)?(?:是|为|选|:)"
    r"|[\[【](?:正确)?答案[\]】]:?|(?:最终)?(?:回答|结论|判断|选择):"
    r"|(?:我|本题)?(?:会|应该|应)?选(?!项)择?:?"
    r"|(?:the |my )?(?:(?:final|correct|best) ){0,2}answer(?: is:?|:)"
    r"|i(?:['’](?:d|ll)| would)? (?:choose|select|pick)\b"
    rf"|{_LEAD}) ?",
    re.IGNORECASE,
)
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
        name = _folded(_plain(text))
        if name:
            by_text[name] = by_text.get(name, frozenset()) | {letter}
    letters = by_text.get(_folded(answer), frozenset())

    choice = answer
    statement = _STATEMENT.match(answer)
    if statement:
        choice = answer[statement.end() :]
    box = _BOX.fullmatch(choice)
    if box:
        choice = box[box.lastindex or 0].strip()
    letters |= by_text.get(_folded(choice), frozenset())

    alone = _LETTER.fullmatch(choice)
    # "The answer is a" may be the beginning of a sentence.
    if alone and not (statement and alone["letter"].islower()):
        return letters | (options.keys() & {alone["letter"].upper()})

    pair = _LETTER_AND_TEXT.fullmatch(choice)
    if pair is None:
        return letters
    text = _folded(pair["text"])
    is_labelled = (
        pair["divider"].strip() in (".", "、")
        or choice[pair.start("divider") - 1] in ")]】"
    )
    if text not in by_text or (_JUDGEMENT.fullmatch(text) and not is_labelled):
        return letters
    return letters | by_text[text] | (options.keys() & {pair["letter"].upper()})


def _folded(text: str) -> str:
    return text.casefold().strip(" 。.!\"'“”‘’「」『』【】()[]")


def _json_answer(text: str) -> str | None:
    """The answer in a JSON object with a single field; None for any other text."""
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", text, re.DOTALL)
    source = fenced[1] if fenced else text
    if not source.lstrip().startswith("{"):
        return None
    try:
        # As pairs, so that a field that is given twice is seen.
        fields = json.loads(source, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return None
    if len(fields) != 1:
        return None
    ((name, value),) = fields
    if not _FIELD.fullmatch(name.casefold()) or not isinstance(value, str):
        return None
    return value


_FIELD = re.compile(
    "answer|choice|option|letter|(?:final|correct)[_ ]answer|(?:最终)?答案|选择|选项"
)

# A refusal that is the whole answer, and names no option.
_REFUSAL = re.compile(
    r"(?:(?:非常|很)?(?:抱歉|对不起|遗憾)[,。]? ?)?我(?:不能|无法|不便|不方便|不会|拒绝)(?:对此)?"
    r"(?:回答|讨论|评论|发表评论|作答|提供帮助|提供相关信息)"
    r"(?:(?:这个|该|此|这类|这道|您的)?(?:问题|题目|话题))?"
    r"|(?:(?:i['’]?m |i am )?sorry,? (?:but )?)?"
    r"i(?: can['’]?t| cannot| can not| won['’]?t|(?:['’]m| am) (?:unable|not able) to)"
    r" (?:help|assist|answer)(?: you)?(?: with)?(?: (?:that|this))?(?: (?:question|request))?",
    re.IGNORECASE,
)
