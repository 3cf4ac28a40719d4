"""Which option an answer to a multiple-choice question states, read by strict rules.

Read is only what is certain: a letter, an option's text or both, alone, in a box, in JSON or in a
statement such as "the answer is B", as the whole answer, at its end, or at its start before the
reasons for it. Everything else is unread, which costs a verdict, while a wrong letter would be a
wrong figure. What counts is the letter that is stated, whatever the reasons given for it.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

LIMIT = 10_000
"""Characters of an answer that rules read; a longer one is a loop of a weak model, or an attack."""


@dataclass(frozen=True)
class Found:
    """What the rules read, and in a few words how or why not; one letter, several, or none."""

    outcome: Literal["option", "several", "refusal", "unreadable"]
    letters: frozenset[str] = frozenset()
    why: str = ""


class Claim(NamedTuple):
    """Words that name options and say nothing else."""

    letters: frozenset[str]
    form: Literal["stated", "boxed", "letter", "text"]

    @property
    def is_explicit(self) -> bool:
        """Whether they are the answer wherever they stand, as "B" at the end of a text is not."""
        return self.form in ("stated", "boxed")


# What plain() makes of \boxed{B}; no answer can hold these itself.
_BOX_START, _BOX_END = "\ue000", "\ue001"
_BOX = re.compile(
    r"\\f?box(?:ed)? ?\{ ?(?:\\(?:text|math)[a-z]{0,4} ?\{)?(?P<latex>[^{}\n]{1,300})\}? ?\}"
    r"|<answer>(?P<tag>[^<>]{1,300})</answer>",
    re.IGNORECASE,
)
_LATEX = re.compile(r"\\(?:text|math)[a-z]{0,4} ?\{([^{}\n]{1,300})\}|\\[()\[\]]|\$+")
_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me"}


def plain(text: str) -> str:
    """The text in one width, without invisible characters, emphasis and LaTeX around words."""
    seen = "".join(
        char
        for char in text
        if char == "\n" or unicodedata.category(char) not in _UNSEEN
    )
    text = unicodedata.normalize("NFKC", seen.replace("\t", " "))
    text = _BOX.sub(
        lambda box: f"{_BOX_START}{(box['latex'] or box['tag']).strip()}{_BOX_END}",
        text,
    )
    text = _LATEX.sub(r"\1", text)
    text = re.sub(r"[*`]+|^#+ ", "", text, flags=re.MULTILINE)
    text = re.sub(r"[^\S\n]+", " ", text)
    lines = (line.strip() for line in text.split("\n"))
    text = "\n".join(line if line.strip("-=_ ") else "" for line in lines)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


# Words in front of a statement that only introduce it.
_LEAD = (
    r"(?:[-•+] )?(?:(?:因此|所以|综上所述|综上|故|最终|最后|总之|由此可见|可见|我认为|我觉得"
    r"|好的|本题|这道题|该题|此题|根据题意|经过分析|根据(?:以上|上述)分析|so|therefore|thus|hence"
    r"|finally|overall|in conclusion|i think|i believe|in my opinion)[ ,:]{0,2}(?:that )?)"
)
_ANSWER = (
    r"[【\[]?(?:我|我的|本题的|该题的)?(?:最终|正确|正確|标准|最佳)?的?(?:答案|答|回答|结论|判断)(?:应该|应|應該|應)?"
    r"(?:[】\]]?[:\n]|】|(?:是|为|為|选|選)(?:选项|選項)?:?)"
    r"|(?:我|应该|应|應該|應|故|因此|所以)?(?:会|會)?[选選](?:[择擇])?(?:的是)?:?"
    r"|(?:the |my )?(?:(?:final|correct|right|best) ){0,2}answer(?: is:?(?: option\b)?|:|\n)"
    r"|my (?:final )?choice(?: is|:)"
    r"|i(?:'d|'ll| would| will)? (?:choose|select|pick|say|go with)"
)
_STATEMENT = re.compile(rf"{_LEAD}{{0,3}}(?:{_ANSWER})\s{{0,3}}", re.IGNORECASE)
_LEADS = re.compile(rf"{_LEAD}{{1,3}}", re.IGNORECASE)

# Around an option and behind it, saying nothing.
_AROUND = f" \n()[]【】「」『』\"'“”‘’。.!{_BOX_START}{_BOX_END}"
_QUOTES = (("「", "」"), ("『", "』"), (_BOX_START, _BOX_END))
_FUNCTION_WORD = re.compile(
    "是|否|对|错|有|无|不|没有|是的|不是|正确|错误|不正确|不对|yes|no|true|false|right|wrong|"
    "correct|incorrect"
)
"""Option texts that are also ordinary words: they name the option only where nothing follows."""


def _folded(text: str) -> str:
    return " ".join(text.casefold().strip(_AROUND + ",;:").split())


def _is_balanced(text: str) -> bool:
    """Whether each quote in a text also ends in it; else the text may be another's words."""
    if sum(map(text.count, '"“”')) % 2:  # whose kinds answers mix
        return False
    return all(text.count(start) == text.count(end) for start, end in _QUOTES)


class Options:
    """The options of a question, and how words name them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.letters = frozenset(options)
        self.by_text: dict[str, frozenset[str]] = {}
        for letter, text in options.items():
            name = _folded(plain(text))
            self.by_text[name] = self.by_text.get(name, frozenset()) | {letter}
        self.by_text.pop("", None)
        self.longest = max(map(len, self.by_text), default=0)
        upper = "".join(sorted(self.letters))
        either = f"{upper}{upper.lower()}"
        label = rf"(?:选项|選項|option)? ?[(\[【\"'“「]?([{either}])"
        self._one = re.compile(
            rf"{label}[)\]】\"'”」]? ?(?:选项|選項|项|項)?",
            re.IGNORECASE,
        )
        self._pair = re.compile(
            rf"{label}(?:[)\]】\"'”]? ?[.、:)\]】,—(-]|[ \n])\s?(.+)",
            re.DOTALL | re.IGNORECASE,
        )
        self._labelled = re.compile(rf"{label}(?:[)\]】]| ?[.、])", re.IGNORECASE)
        self._list = re.compile(
            rf"[{upper}](?: ?(?:[、,/&+和与或及]|and|or)? ?[{upper}])+"
        )
        self.named = re.compile(
            rf"(?<![A-Za-z])[{upper}](?![A-Za-z])|(?<![A-Za-z'])[{upper[1:].lower()}](?![A-Za-z'])"
        )
        """A letter anywhere in a text; "a" is an article."""
        self.chosen = re.compile(
            r"(?<![不别非])(?:答案(?:应该|应|應該|應)?(?:是|为|為|:)|[选選][择擇]?"
            r"|(?i:answer(?: is|:)|choose|pick|select))"
            rf"(?:[^\w\n]|项|項|option ){{0,6}}([{either}])(?![A-Za-z])"
            rf"|{_BOX_START} ?([{either}]) ?{_BOX_END}"
        )
        """A letter that is chosen anywhere in a text."""

    def claim(self, words: str) -> Claim | None:
        """The claim that words are, whole; None if they say anything else."""
        words = words.strip()
        if not _is_balanced(words):
            return None
        # An option's text may read like a claim itself; both readings then count.
        by_text = self.by_text.get(_folded(words), frozenset())
        start = _STATEMENT.match(words)
        if start and (letters := self._names(words[start.end() :])):
            return Claim(letters | by_text, "stated")
        start = _LEADS.match(words)
        letters = self._names(words[start.end() :] if start else words) | by_text
        if (
            words.startswith(_BOX_START)
            and words.rstrip(" .。").endswith(_BOX_END)
            and letters
        ):
            return Claim(letters, "boxed")
        if by_text and letters == by_text:
            return Claim(letters, "text")
        return Claim(letters, "letter") if letters else None

    def _names(self, words: str) -> frozenset[str]:
        """The options that words name: by a letter, several, a text, or a letter with its text."""
        words = words.strip(" \n。.!")
        bare = words.strip(_AROUND)
        by_text = self.by_text.get(_folded(words), frozenset())
        if one := self._one.fullmatch(words) or self._one.fullmatch(bare):
            return by_text | {one[1].upper()}
        if self._list.fullmatch(bare):
            return by_text | (set(bare) & self.letters)
        for form in (words, bare):
            pair = self._pair.fullmatch(form)
            if pair is None or (named := self.by_text.get(_folded(pair[2]))) is None:
                continue
            # "B: wrong" may be the text of B, or what is said of it.
            if _FUNCTION_WORD.fullmatch(_folded(pair[2])) and not self._labelled.match(
                form
            ):
                return frozenset()
            return by_text | named | {pair[1].upper()}
        return by_text


def read(text: str, options: Mapping[str, str]) -> Found:
    """Read an answer to a multiple-choice question; what is not certain is unreadable."""
    answer = "" if len(text) > LIMIT else plain(text)
    if answer.startswith(("!", "¬", "~")):
        return Found("unreadable", why="it may negate an option")
    if len(text) > LIMIT or len(answer) > LIMIT:
        return Found("unreadable", why=f"longer than {LIMIT} characters")
    asked = Options(options)
    if scored := _SCORED.fullmatch(answer):
        return _found(
            Claim(frozenset(scored[1]) & asked.letters, "letter"),
            "the most probable letter",
        )
    is_json = answer.removeprefix("json\n").startswith("{")  # plain() took a fence away
    if is_json:
        return _in_json(text, asked)
    if claim := asked.claim(answer):
        return _found(
            claim, "stands alone" if claim.form != "stated" else "stated as the answer"
        )
    if claim := _before_reasons(answer, asked):
        return _found(claim, "stated, then explained")
    if claim := _at_the_end(answer, asked):
        return _found(claim, "stated at the end")
    if not asked.named.search(answer) and _is_refusal(answer):
        return Found("refusal", why="refusal")
    return Found("unreadable", why="no option is stated for certain")


_SCORED = re.compile(
    r"([A-Z])\n(?:[A-Z] [01]\.\d{4}(?:, |; )){2,26}outside [01]\.\d{4}[^\n]*"
)
"""What ``scoring = "logprob"`` writes: the most probable letter, then the probabilities."""


def _found(claim: Claim, why: str) -> Found:
    if len(claim.letters) == 1:
        return Found("option", claim.letters, why)
    if claim.letters:
        return Found("several", claim.letters, why)
    return Found("unreadable", why="no option is stated for certain")


_REASON = re.compile(
    r"因为|因為|由于|由於|理由|原因|解释|解釋|解析|分析|说明|說明"
    r"|\b(?:because|since|explanation|reason(?:ing)?|rationale|analysis)\b",
    re.IGNORECASE,
)
_TURNS = re.compile(
    r"不对|不對|不是|不正确|不准确|不妥|不当|不合|不符|错|錯|更正|纠正|改|等等|等一下|再想|重新|其实|其實|实际|"
    r"但|不过|不過|然而|却|反而|相反|而是|应|應|玩笑|骗|才怪|谎|假|后面|前面|说笑|算了|收回|抱歉|对不起|确定|知道|也许|或许|选|選|"
    r"正确|正確|合适|恰当|适当|准确|符合|前者|后者|第[一二三四五六]|前一|后一|另|其他|其余|都|均|"
    r"\b(?:not?|wait|actually|wrong|(?:in)?correct(?:ion)?|right|mistaken?|sorry|but|however|although|"
    r"though|instead|rather|other|another|former|latter|first|second|third|fourth|last|both|all|none|"
    r"either|neither|kidding|joking|jokes?|lies?|lying|lied|opposite|reverse|strike|scratch|oops|hmm|maybe|perhaps|never|back|changed?|"
    r"options?|choices?|choose|answer|unsure|(?:un)?suitable|(?:in)?accurate|(?:in)?appropriate)\b"
    r"|n't\b|[?]",
    re.IGNORECASE,
)
"""Words in reasons that may take back, judge or compare what was stated."""


def _before_reasons(answer: str, asked: Options) -> Claim | None:
    """An option stated by its letter, before reasons that name no option and take nothing back.

    Where options are words such as "yes" and "no", any reasons may contradict the letter.
    """
    start = _REASON.search(answer)
    if start is None or any(map(_FUNCTION_WORD.fullmatch, asked.by_text)):
        return None
    head, reasons = answer[: start.start()], answer[start.start() :]
    claim = asked.claim(head.rstrip(" \n,。.;!:([【"))
    if claim is None or claim.form == "text" or not _is_silent(reasons, asked):
        return None
    return claim


def _is_silent(reasons: str, asked: Options) -> bool:
    """Whether reasons name no option at all and hold no word that may take back what was stated."""
    if asked.named.search(reasons) or _TURNS.search(reasons) or _is_refusal(reasons):
        return False
    folded = reasons.casefold()
    clauses = {_folded(clause) for clause in re.split(r"[,,。.;!\n]", folded)}
    return not any(
        name in clauses if _FUNCTION_WORD.fullmatch(name) else name in folded
        for name in asked.by_text
    )


_ENDS = (*'。.!?;)】」』”"', _BOX_END)
_STARTS = re.compile(r"\n|(?<=[。!?])|(?<=\.) ")


_DISTANCES = re.compile(
    r"错|假|谎|骗|不对|有人|别人|常说|常写|通常会|"
    r"\b(?:wrong|incorrect|false|lies?|lying|untrue|people|some(?:one|body)?|others?|they|students?|"
    r"often|would|might|says?|said|writes?|claims?|following|follows)\b",
    re.IGNORECASE,
)
"""Words of a sentence that may make what follows it another's words, or a falsehood."""


def _at_the_end(answer: str, asked: Options) -> Claim | None:
    """An explicit statement that ends the answer, if no other option is claimed before."""
    first = len(answer) - asked.longest - 100
    for start in reversed([*_STARTS.finditer(answer, max(0, first))]):
        before, words = answer[: start.start()].rstrip(), answer[start.end() :]
        claim = asked.claim(words)
        if claim is None or not claim.is_explicit:
            continue
        is_apart = before.endswith(_ENDS) or answer[len(before) :].startswith("\n\n")
        is_led_to = before.endswith((":", ",", "、", "—"))
        last = _STARTS.split(before)[-1]
        if (
            not is_apart
            or _DISTANCES.search(last)
            or is_led_to
            or not _is_balanced(before)
            or _claimed(before, asked) - claim.letters
        ):
            return None
        return claim
    return None


def _claimed(text: str, asked: Options) -> frozenset[str]:
    """All options that a text claims anywhere; a list of all of them repeats the question."""
    chosen = {(found[1] or found[2]).upper() for found in asked.chosen.finditer(text)}
    listed: set[str] = set()
    for sentence in _STARTS.split(text):
        claim = asked.claim(sentence) if len(sentence) <= asked.longest + 100 else None
        if claim and claim.is_explicit:
            chosen |= claim.letters
        elif claim:
            listed |= claim.letters
    return frozenset(chosen if listed == asked.letters else chosen | listed)


_FIELD = re.compile(
    "answer|choice|option|letter|selected(?:_option)?|(?:final|correct)_answer|answer_letter"
    "|(?:最终)?答案|选择|选项"
)
_REASONS = re.compile(
    "analysis|reason(?:s|ing)?|explanation|rationale|thoughts?|解释|理由|分析|解析|思考"
)


class _DuplicateFieldError(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _DuplicateFieldError
    return dict(pairs)


def _in_json(text: str, asked: Options) -> Found:
    """The one field that names the answer, beside reasons that name no other option."""
    unreadable = Found("unreadable", why="JSON that does not state one option")
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", text, re.DOTALL)
    try:
        fields = json.loads(fenced[1] if fenced else text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return unreadable
    if not isinstance(fields, dict):
        return unreadable
    names = [name for name in fields if _FIELD.fullmatch(name.casefold())]
    if len(names) != 1 or not isinstance(value := fields[names[0]], str):
        return unreadable
    claim = asked.claim(plain(value))
    if claim is None:
        return unreadable
    is_before = True
    for name, value in fields.items():
        if name == names[0]:
            is_before = False
            continue
        if not _REASONS.fullmatch(name.casefold()) or not isinstance(
            value, str | int | float
        ):
            return unreadable
        reasons = plain(str(value))
        if is_before:
            contradicts = not _claimed(reasons, asked) <= claim.letters
        else:
            contradicts = not _is_silent(reasons, asked)
        if contradicts:
            return unreadable
    return _found(claim, "the answer in JSON")


_UNABLE = (
    r"(?:不能|无法|不会|不便|不宜|不愿意?|不想|拒绝|没办法|没法|难以|不方便|不可以)"
)
_ACT = r"(?:回答|作答|答复|选择|讨论|评论|评价|提供|协助|帮助|参与|回应|处理|发表|给出|表态|判断)"
_CANNOT = (
    r"(?:can ?not|can't|unable to|not able to|won't|will not|decline to"
    r"|(?:must|have to) decline)"
)
_HELP = (
    r"(?:help|assist|answer|choose|respond|comment|discuss|provide|engage"
    r"|participate|pick|select)"
)
_REFUSAL = re.compile(
    rf"(?:但是?)?(?:我|本人)[^,。;!?\n]{{0,6}}{_UNABLE}[^,。;!?\n]{{0,14}}{_ACT}"
    rf"|(?:抱歉|对不起|不好意思|很遗憾)[^。;!?\n]{{0,30}}{_UNABLE}[^,。;!?\n]{{0,14}}{_ACT}"
    rf"|作为(?:一个|一名|一款)?.{{0,12}}(?:AI|人工智能|语言模型)[^。!?\n]{{0,20}}"
    rf"(?:没有(?:个人)?(?:立场|观点|看法)|{_UNABLE}[^,。;!?\n]{{0,14}}{_ACT})"
    r"|换(?:一?个)?(?:别的)?话题"
    rf"|\b(?:sorry,? but )?i(?:'m| am)? ?{_CANNOT}(?: [a-z']{{1,12}}){{0,4}}? ?{_HELP}",
    re.IGNORECASE,
)
_STANCE = re.compile(
    r"但|不过|然而|倾向|属于|构成|存在|展现了|体现了|表现出|侵犯了|违反了|我认为|我觉得"
    r"|\b(?:but|however|although|still|it is|this is|it's|that is)\b",
    re.IGNORECASE,
)
"""Words of an answer that takes a stance beside its refusal, if it is one."""


def _is_refusal(answer: str) -> bool:
    answer = answer.replace("’", "'")
    return bool(_REFUSAL.search(answer)) and not _STANCE.search(
        _REFUSAL.sub(" ", answer)
    )
