"""Untrusted text in the report: nothing in it is invisible, lost, or reorders its surroundings.

``records.js`` follows the same rule.
"""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\ufffd"

_KEPT = {"\n", "\t", "\u200c", "\u200d"}
"""Line breaks, and the joiners that Persian, Bengali and emoji are spelled with."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    """The text without invisible characters.

    Control characters become their pictures (ESC becomes ``␛``); bidirectional marks, surrogates
    and other invisible characters become U+FFFD.
    """
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(char: str) -> str:
    if char in _KEPT or unicodedata.category(char) not in _HIDDEN:
        return char
    if char < " ":
        return chr(0x2400 + ord(char))
    return "\u2421" if char == "\x7f" else REPLACEMENT
