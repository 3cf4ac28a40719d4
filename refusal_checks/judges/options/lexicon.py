"""The words by which answers claim, deny and doubt options, in Chinese and English.

Each class of words has a letter. ``classes`` turns a clause into a string of these letters, over
which ``claims`` states its grammar. Nothing is concluded from a word that ``words.toml`` lacks.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

UNKNOWN = "x"
"""The class of all words that are not listed in ``words.toml``."""


def _classes() -> dict[str, str]:
    """The class of each word, the empty one for words that change nothing."""
    tables = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
    return {
        word.replace("_", " "): table["class"]
        for table in tables.values()
        for word in table["words"].split()
    }


_CLASS = _classes()


def _pattern() -> re.Pattern[str]:
    """The longest listed word; else an option, a run of Latin letters, or a character."""
    words = sorted(map(re.escape, _CLASS), key=len, reverse=True)
    latin = "|".join(word for word in words if word[0].isascii() and word[0].isalpha())
    other = "|".join(word for word in words if not (word[0].isascii() and word[0].isalpha()))
    return re.compile(rf"(?:{latin})(?![a-z])|{other}|[a-z']+|[^\s\w]|[^a-z\s]", re.DOTALL)


_LEXEME = _pattern()


def classes(clause: str) -> str:
    """The classes of a clause's words; options stay as they are, fillers and marks are left out.

    Args:
        clause: in lower case, its options as the characters of ``marking``.
    """
    found: list[str] = []
    for word in _LEXEME.findall(clause):
        name = _CLASS.get(word)
        if name is None:
            name = word if "\ue000" <= word <= "\ue007" else UNKNOWN if word.isalnum() else ""
        if name and not (name == UNKNOWN and found[-1:] == [UNKNOWN]):
            found.append(name)
    return "".join(found)
