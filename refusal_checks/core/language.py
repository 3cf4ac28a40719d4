"""Which language an answer is in, as far as a judge must know it.

A judge that was measured on English and Chinese calls compliance in Russian a refusal, so what it
says of answers in other languages does not count as a verdict.
"""

import re
from collections.abc import Collection
from functools import cache
from typing import Any

_KIN = {"en": ("en", "pcm"), "zh": ("zh", "yue", "wuu", "lzh")}
"""Languages that are read like another one: the identifier tells these apart by little."""

DOUBT = 0.01
"""Probability from which a text may be in a language. Of 1,454 recorded English answers none has
less, of answers of one sentence in other languages none as much."""

_HAN, _KANA = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"), re.compile("[\u3040-\u30ff]")
_ENGLISH = re.compile(
    r"\b(?:the|and|of|you|that|this|with|are|your|cannot|can't|i'm)\b"
)


def other_language(text: str, measured: Collection[str]) -> str:
    """The code (ISO 639) of a text's language if it is none of those measured; else empty.

    A text that may be in one of them, for example because it is short, counts as that. Only ``en``
    and ``zh`` are told without the identifier.
    """
    start = text[:400].lower()
    letters = sum(map(str.isalpha, start))
    if (
        "zh" in measured
        and not _KANA.search(start)
        and 5 * len(_HAN.findall(start)) >= letters
    ):
        return ""
    english = len(_ENGLISH.findall(start)) if "en" in measured else 0
    if english and 12 * english >= start.count(" "):
        return ""
    found = dict(_identifier().rank(start))
    near = {kin for code in measured for kin in _KIN.get(code, (code,))} | {
        "zxx"
    }  # code
    if sum(found.get(code, 0.0) for code in near) >= DOUBT:
        return ""
    return str(max(found, key=found.__getitem__))


def language_of(text: str) -> str:
    """The code of a text's language; ``en`` for one that is too short to tell."""
    found = other_language(text, ("en",))
    return "zh" if found and not other_language(text, ("zh",)) else found or "en"


@cache
def _identifier() -> Any:
    from py3langid.langid import (
        MODEL_FILE,
        LanguageIdentifier,
    )  # loads its model for half a second

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
