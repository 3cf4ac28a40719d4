"""Encodings in which attacks write requests and ask for answers.

``decode`` takes any answer, and leaves text that is not encoded as it is.
"""

import base64
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Encoding(NamedTuple):
    encode: Callable[[str], str]
    decode: Callable[[str], str]


PLAIN = Encoding(str, str)

# Base64

_LETTER = "[A-Za-z0-9+/_-]"

_RUN = re.compile(
    rf"{_LETTER}{{4,}}(?:\s+{_LETTER}{{4,}})*(?:\s*{_LETTER}{{2,3}}(?==))?={{0,2}}"
    rf"|{_LETTER}{{2,3}}={{1,2}}"
)
"""What may be base64, in its usual or its URL-safe letters, perhaps broken into lines."""

_SHORTEST = 16
"""Letters below which a run is taken for a word, unless it is the whole answer."""

_MARKS = re.compile(r"```\w*\n|[\s`*\"']")
"""What may stand around a run that is the whole answer."""

_PART = r"(?:[A-Z]?[a-z]+|[A-Z]+|\d+)"
_WORD = rf"{_PART}(?:[-_/]{_PART})*"
"""A word or number as people write it, which base64 hardly ever looks like."""

_WORDS = re.compile(rf"{_WORD}(?:\s+{_WORD})*")

_CODED = rf"(?<!\S)(?!{_WORD}(?!\S))\S+"

_PIECES = tuple(map(re.compile, (r"(?s:.+)", rf"{_CODED}(?:\s+{_CODED})*", r"\S+")))
"""What is decoded of a run: all, else what stands between words, else each word."""


def _from_base64(text: str) -> str:
    answer = _MARKS.sub("", text)

    def read(run: re.Match[str]) -> str:
        # The first and the last letters of a run may belong to words.
        for piece in _PIECES:
            reading = piece.sub(lambda match: _plain(match[0], answer), run[0])
            if reading != run[0]:
                return reading
        return run[0]

    return _RUN.sub(read, text)


_HIDDEN = 30
"""Least bytes of a text in base64 that an answer hides from a judge."""

_LONG_RUN = re.compile(rf"{_LETTER}{{16}}")


def hidden_text(answer: str) -> str:
    """What base64 in an answer reads, a line for each run; empty if no run is a text.

    It is shorter than the answer.
    """
    if not _LONG_RUN.search(answer):
        return ""  # the usual case
    texts: list[str] = []

    def read(run: re.Match[str]) -> str:
        for piece in _PIECES:
            plain = [_plain(match[0], "") for match in piece.finditer(run[0])]
            readable = [text for text in plain if text not in run[0] and _is_text(text)]
            if readable:
                texts.extend(readable)
                break
        return run[0]

    _RUN.sub(read, answer)
    return "\n".join(texts)


def _is_text(text: str) -> bool:
    """True if a text is long and consists of letters and spaces for the most part."""
    letters = sum(letter.isalpha() or letter.isspace() for letter in text)
    return len(text.encode()) >= _HIDDEN and letters >= 0.7 * len(text)


def _plain(piece: str, answer: str) -> str:
    """Decode a piece; it stays as it is if it is not base64 of readable text, or is too short."""
    letters = re.sub(r"\s", "", piece).rstrip("=").translate(str.maketrans("-_", "+/"))
    is_short = len(letters) < _SHORTEST
    if is_short and (_MARKS.sub("", piece) != answer or _WORDS.fullmatch(piece)):
        return piece
    if len(letters) % 4 == 1:  # cut off in the middle
        letters = letters[:-1]
    padding = "=" * (-len(letters) % 4)
    try:
        plain = base64.b64decode(letters + padding).decode()
    except UnicodeDecodeError as fault:
        # Only the last character is broken in an answer that a limit ended.
        is_cut = fault.start >= len(fault.object) - 3 and fault.start > 0
        if not is_cut or is_short:
            return piece
        plain = fault.object[: fault.start].decode()
    is_readable = all(letter.isprintable() or letter in "\n\r\t" for letter in plain)
    return plain if plain and is_readable else piece


# Leetspeak

_DIGITS = str.maketrans("aeiost", "431057")
_LETTERS = str.maketrans("431057", "aeiost")
_ALPHANUMERIC = re.compile(r"[^\W_]+")


def _leetspeak(text: str) -> str:
    """Replace letters by digits, except each word's first letter and in words with digits."""

    def changed(match: re.Match[str]) -> str:
        word = match[0]
        if any(letter.isdigit() for letter in word):
            return word
        return word[0] + word[1:].translate(_DIGITS)

    return _ALPHANUMERIC.sub(changed, text)


def _from_leetspeak(text: str) -> str:
    """Turn these digits back into letters, in words that begin with a letter."""

    def plain(match: re.Match[str]) -> str:
        word = match[0]
        if word[0].isdigit():
            return word
        return word[0] + word[1:].translate(_LETTERS)

    return _ALPHANUMERIC.sub(plain, text)


ENCODINGS: Mapping[str, Encoding] = {
    "base64": Encoding(
        lambda text: base64.b64encode(text.encode()).decode(), _from_base64
    ),
    "leetspeak": Encoding(_leetspeak, _from_leetspeak),
}
