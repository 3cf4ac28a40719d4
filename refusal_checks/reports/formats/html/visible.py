"""Untrusted text in the report: nothing in it is invisible, lost, or reorders its surroundings.

``records.js`` follows the same rule.
"""

from __future__ import annotations

import unicodedata

from refusal_checks.core.text import BLANK, is_style

REPLACEMENT = "\ufffd"

_KEPT = {"\n", "\t", "\u200c", "\u200d"}
"""Line breaks, and the joiners that Persian, Bengali and emoji are spelled with."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    """The text without invisible characters.

    Control characters become their pictures (ESC becomes ``␛``); bidirectional marks, surrogates
    and other invisible characters become U+FFFD.
    """
    lines = text.replace("\r\n", "\n")
    return "".join(map(_shown, f" {lines}", lines))


def _shown(before: str, char: str) -> str:
    is_blank = char in BLANK and not is_style(before, char)
    if char in _KEPT or not (is_blank or unicodedata.category(char) in _HIDDEN):
        return char
    if char < " ":
        return chr(0x2400 + ord(char))
    return "\u2421" if char == "\x7f" else REPLACEMENT
