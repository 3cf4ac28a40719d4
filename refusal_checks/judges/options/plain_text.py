"""Make an answer plain before its options are looked for: no markup, one width, one script."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from pathlib import Path

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


def _characters() -> dict[int, str]:
    """Traditional characters as simplified ones, and letters in coloured squares and circles."""
    path = Path(__file__).with_name("traditional.toml")
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    pairs = zip(tables["traditional"], tables["simplified"], strict=True)
    same = {ord(old): str(new) for old, new in pairs if old != "\n"}
    squares = {
        start + number: chr(ord("A") + number)
        for start in (0x1F150, 0x1F170, 0x1F1E6)
        for number in range(8)
    }
    quotes = zip("’‘“”「」『』_", '\'\'"""""" ', strict=True)
    return same | squares | {ord(old): new for old, new in quotes}


_CHARACTERS = _characters()


def _is_unseen(char: str) -> bool:
    """True for controls, and for combining marks, long runs of which are slow to normalise."""
    return unicodedata.category(char) in _UNSEEN or bool(unicodedata.combining(char))


def _shown(char: str) -> str:
    """A character, or what stands for it: nothing for unseen ones, a space for pictures."""
    if char in "\n\t":
        return char
    if _is_unseen(char):
        return ""
    says_nothing = unicodedata.category(char) == "So" and char not in _TELLING
    return " " if says_nothing and ord(char) not in _CHARACTERS else char


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
    """A heading, or a sentence that breaks off, and what the next line says."""
    is_heading = not found[1].lower().endswith((":", "是", "为", "is"))
    return found[1] + (": " if is_heading else " ")
