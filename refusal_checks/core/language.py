"""Identify the languages of answers in which the judge was not measured.

A judge that was measured on English and Chinese may call compliance in Russian a refusal, so its
verdicts on answers in other languages do not count.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from typing import Any

_KIN = {"en": ("en", "pcm"), "zh": ("zh", "yue", "wuu", "lzh")}
"""Languages that count as another one, as the identifier often confuses them."""

DOUBT = 0.01
"""A text may be in a language from this probability on. All of 1,454 recorded English answers reach
it, and no one-sentence answer in another language does."""

PIECE, LETTERS = 200, 40
"""The most characters and fewest letters of a piece of text. None of the same 1,454 answers has a
piece that is taken for another language."""

_END = re.compile(r"(?<=[.!?;:。！？；：])\s|\n")

_HAN, _KANA = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"), re.compile("[\u3040-\u30ff]")
_ENGLISH = re.compile(
    r"\b(?:the|and|of|you|that|this|with|are|your|cannot|can't|i'm|from|which|they|their|would|"
    r"could|should|what|when|there|it's|not|any|these|have|been)\b"
)


# Called when work is planned, and again when an answer is judged.
@lru_cache(maxsize=4096)
def other_language(text: str, measured: tuple[str, ...] | frozenset[str]) -> str:
    """The ISO 639 code of a language in the text that the judge was not measured on; may be empty.

    Checks the beginning and each later piece, since a preface may be in another language than the
    rest. A piece that could be in a measured language, such as a short one, counts as such. Without
    the language identifier, only ``en`` and ``zh`` are recognised.
    """
    other = _first_other_language(text, measured)
    if other:
        return other
    for piece in _pieces(text):
        other = _first_other_language(piece, measured)
        if other:
            return other
    return ""


def _pieces(text: str) -> Iterator[str]:
    """Split a text into sentences; long ones are split further, and short ones joined."""
    joined = ""
    for sentence in _END.split(text):
        for start in range(0, len(sentence), PIECE):
            part = sentence[start : start + PIECE]
            if _letters(part) >= LETTERS:
                yield part
                continue
            joined += f"{part} "
            if _letters(joined) >= LETTERS:
                yield joined
                joined = ""


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _first_other_language(text: str, measured: Collection[str]) -> str:
    """The code of the language in which a text begins, unless it is a measured one."""
    start = text[:400].lower()
    if "zh" in measured and _is_chinese(start):
        return ""
    if "en" in measured and _is_english(start):
        return ""

    ranked = dict(_identifier().rank(start))
    alike = {"zxx"}  # what the identifier calls code
    for code in measured:
        alike.update(_KIN.get(code, (code,)))
    if sum(ranked.get(code, 0.0) for code in alike) >= DOUBT:
        return ""
    return str(max(ranked, key=ranked.__getitem__))


def _is_chinese(text: str) -> bool:
    """True if a fifth of the letters are Chinese characters and none is Japanese."""
    letters = _letters(text)
    return not _KANA.search(text) and 5 * len(_HAN.findall(text)) >= letters


def _is_english(text: str) -> bool:
    """True if at least one word in twelve is a common English word."""
    words = len(_ENGLISH.findall(text))
    return words > 0 and 12 * words >= text.count(" ")


@cache
def _identifier() -> Any:
    # Loading its model takes half a second.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
