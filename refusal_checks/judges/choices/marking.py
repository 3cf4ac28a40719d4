"""Mark the options in an answer: one private character for each place that names one.

The answer is made plain first: no markup, one width, one script. An option is named by its letter,
its text, its place (第二个选项) or, for options such as yes and no, a synonym where an
answer would stand. Everything here takes linear time.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path

FIRST = 0xE000
OPTION = "[\ue000-\ue007]"  # the private characters that stand for options

BETWEEN = r"[ .、:;,()\[\]【】《》\"'=→>/·—-]{1,4}(?:(?:即|也就是|也即|that is)[ .:,\"]{0,3})?"
"""What stands between a letter and the text of its option."""


@lru_cache(4096)
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern of options, which thousands of questions share."""
    return re.compile(pattern, flags)


LIMIT = 10_000
"""Characters of an answer that rules read; a longer one is a loop of a weak model, or an attack."""

_UNSEEN = {"Cc", "Cf", "Co", "Cs"}
_UNUSUAL = re.compile(r"[^\n -~\u2014-\u2026\u3001-\u3015\u4e00-\u9fff\uff01-\uff5e]")
_SPECIAL = re.compile(r"<\|[^|<>\n]{1,40}\|>")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
"""Two letters that are shown as a flag; one alone is an option's letter."""

_STRUCK = re.compile(r"~~[^~\n]{1,300}~~|<(?:s|del|strike)>[^<\n]{1,300}</", re.IGNORECASE)
_LAYOUT = re.compile(
    r"</?(?:[biupa]|em|strong|code|pre|span|div|center|font|br|li|ul|ol|h[1-6]|mark|small|big|t[drh])"
    r"(?: [^<>\n]{0,80})?/?>"
)
"""Tags of HTML that say nothing; in lower case, since ``<B>`` may be an option."""

_TAGS = re.compile(r"<(/?)([a-z_\u4e00-\u9fff]{1,20})>", re.IGNORECASE)
_NUMBERED_ROW = re.compile(r"^ ?\| {0,9}\d{1,4} {0,9}\|", re.MULTILINE)
_NUMBER = re.compile(r"^\(?\d{1,3}[.、:)] ?(?=[^\d\s])", re.MULTILINE)
_SURE = re.compile(
    r" ?\((?=[^()\n]{0,40}(?:确定|把握|置信|信心|sure|certain|confiden|\d%|0?\.\d))"
    r"(?![^()\n]{0,40}(?:不|没|低|not\b|un|low|less|n't))[^()\n]{1,40}\)",
    re.IGNORECASE,
)
"""How sure an answer is of itself, in parentheses, unless it is not."""

_TELLING = frozenset("✅✓✔☑❌✗✘✖→⇒⭕⛔🚫❎➡\ufe0f")
"""Symbols that say something of an option beside them; others are left out."""
_LATEX = re.compile(
    r"\\(?:fbox|text(?:bf|it|rm)?|math(?:bf|rm|it|sf)|displaystyle|left|right|quad)\b"
)
_NAMES = "答案|结论|判断|判定|结果|回答|选择|正确答案|最终答案|正确选项|answer|final answer|choice"
_HEADING = re.compile(rf"[【\[《「(]\s?({_NAMES})\s?[】\]》」)]:?", re.IGNORECASE)
_UNFINISHED = re.compile(
    rf"((?:{_NAMES}|我选|故选|应选|因此选|所以选)(?:是|为| is)?|[:：])\s*\n\s*", re.IGNORECASE
)


_SCRIPTS = tomllib.loads(Path(__file__).with_name("traditional.toml").read_text(encoding="utf-8"))
_CHARACTERS: dict[int, str] = {
    **{
        ord(old): new
        for old, new in zip(_SCRIPTS["traditional"], _SCRIPTS["simplified"], strict=True)
        if old != "\n"
    },
    # letters in coloured squares and circles
    **{start + n: "ABCDEFGH"[n] for start in (0x1F150, 0x1F170, 0x1F1E6) for n in range(8)},
    **{ord(old): new for old, new in zip("’‘“”「」『』_", '\'\'"""""" ', strict=True)},
}
"""Traditional characters as simplified ones, letters in pictures, and one form of quotes."""


def _shown(char: str) -> str:
    """A character, or what stands for it: nothing for unseen ones, a space for pictures.

    Combining marks count as unseen, because long runs of them are slow to normalise.
    """
    category = unicodedata.category(char)
    if char in "\n\t":
        return char
    if category in _UNSEEN or unicodedata.combining(char):
        return ""
    says_nothing = category == "So" and char not in _TELLING and ord(char) not in _CHARACTERS
    return " " if says_nothing else char


def plain(text: str) -> str:
    """The text without markup, in one width and with one form of quotes, its lines trimmed."""
    if _UNUSUAL.search(text):
        text = "".join(map(_shown, _FLAG.sub(" ", text)))
    text = unicodedata.normalize("NFKC", text)[: LIMIT + 1]  # one character can become eighteen
    text = _STRUCK.sub(" ", _SPECIAL.sub("\n", text.replace("\\boxed", "\nanswer: ")))
    text = _NUMBERED_ROW.sub("", _LAYOUT.sub(" ", _LATEX.sub("", text)))
    text = _TAGS.sub(lambda tag: "\n" if tag[1] else f"\n{tag[2]}: ", text)
    text = re.sub(r"[*`#$\\{}|~]+|(?<![a-z])_|_(?![a-z])|\ufe0f", "", text, flags=re.IGNORECASE)
    text = text.translate(_CHARACTERS)
    text = re.sub(r"\bvs\.", "vs", re.sub(r"[^\S\n]+", " ", text))
    text = "\n".join(line.strip() for line in text.split("\n") if line.strip())
    text = re.sub(r"(?<![A-Za-z])'([^'\n]{1,80})'(?![A-Za-z])", r'"\1"', text)
    text = _SURE.sub("", _NUMBER.sub("", text))
    return _UNFINISHED.sub(_continued, _HEADING.sub(r"\1: ", text))


def _continued(found: re.Match[str]) -> str:
    """A heading, or a sentence that breaks off, before what the next line says."""
    return found[1] + (" " if found[1].lower().endswith((":", "是", "为", "is")) else ": ")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _words(
    "是 否 对 错 有 无 不 没有 是的 不是 正确 错误 不正确 不对 yes no true false right wrong "
    "correct incorrect"
)
"""Option texts that are also ordinary words: they name the option only where an answer stands."""


_YES = _words("是的 是 对的 对 没错 正确 肯定的 肯定 yes yeah yep true correct right affirmative")
_NO = _words(
    "不是的 不是 否 错误 错误的 错的 错 不正确 不对 否定的 否定 no nope false incorrect wrong "
    "negative"
)
JUDGING = _words(
    "对 对的 正确 错误 错误的 错的 错 不正确 不对 true correct right false incorrect wrong"
)
"""Synonyms that may be about the matter in question, and mean yes or no only of a truth."""

_RETRACTING = _words("不对 不是 不是的 错 错误 no nope wrong incorrect")
"""Words that go back on a claim where they stand alone."""


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
    text = compiled(own).sub(lambda found: found[1] + words[found[2]], text)
    texts = frozenset(name.lower() for name in named)
    for name, mark in named.items():
        if name.lower() in words:
            text = text.replace(f'"{name.lower()}"', f'"{mark}"')
    return compiled(f"{_BEFORE}({ordered}){_AFTER}").sub(partial(_slot, words, texts), text)


_WRONG = _words("错误 错误的 错的 错 不正确 不对 wrong incorrect")


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


_CONTRACTED = {"can't": "can not", "cannot": "can not", "won't": "will not", "n't": " not"}


def marked(text: str, options: Mapping[str, str], truth: bool = False) -> str:
    """A plain answer, in lower case, with its options marked.

    Where the question asks for the truth, right and wrong mean yes and no.
    """
    marks = {letter: chr(FIRST + number) for number, letter in enumerate(options)}
    names = {letter: plain(option).strip(" \n.。,;:!?\"'") for letter, option in options.items()}
    by_text: dict[str, list[str]] = {}
    for letter, name in names.items():
        by_text.setdefault(name, []).append(marks[letter])
    named = {name: "、".join(found) for name, found in by_text.items()}
    text = _marked_texts(_marked_pairs(text, names, marks), named)
    text = _marked_places(_marked_letters(text, marks), marks)
    text = text.lower()
    for short, long in _CONTRACTED.items():
        text = text.replace(short, long)
    return _joined(marked_slots(text, named, truth))


def _marked_pairs(text: str, names: Mapping[str, str], marks: Mapping[str, str]) -> str:
    for letter, name in names.items():
        if name and not _is_said_of_another(name, letter, names, text):
            letters = f"(?<![A-Za-z0-9])[{letter}{letter.lower()}]"
            pair = rf"{letters}(?:选项|项)?{BETWEEN}{re.escape(name)}(?=$|[^\w、])"
            text = compiled(pair, re.IGNORECASE).sub(marks[letter], text)
    return text


def _is_said_of_another(name: str, letter: str, letters: Iterable[str], text: str) -> bool:
    """True if an option's text is a verdict, such as right, that another option has, too."""
    if name.lower() not in JUDGING:
        return False
    others = "".join(other + other.lower() for other in letters if other != letter)
    verdict = rf"(?<![A-Za-z0-9])[{others}](?:选项|项)?(?:{BETWEEN})?{re.escape(name)}(?=$|[^\w、])"
    return bool(compiled(verdict, re.IGNORECASE).search(text))


def _marked_texts(text: str, named: Mapping[str, str]) -> str:
    """Mark option texts; the longest that fits at a place is meant."""
    words = [name for name in named if name and name.lower() not in FUNCTION_WORDS]
    if not words:
        return text
    lower = {name.lower(): mark for name, mark in named.items()}
    pattern = "|".join(map(_bounded, sorted(words, key=len, reverse=True)))
    return compiled(pattern, re.IGNORECASE).sub(lambda found: lower[found[0].lower()], text)


_AGREEING = _words("认同 不认同 同意 不同意 赞成 不赞成 赞同 不赞同 支持 不支持 反对")
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
        named = re.findall(OPTION, text[: found.start()]) if is_pair else []
        # Of two, in their order; those that an answer names in another one are not meant by it.
        if number >= len(every) or (is_pair and (len(every) != 2 or named != sorted(named))):
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
