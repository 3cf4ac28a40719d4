"""Make hostile text, such as model output, safe for a terminal, a log, a file or a judge."""

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
"""Terminal control sequences: CSI, and those of two characters. Sequences that carry text (OSC for
titles and links, DCS, APC) lose only their first two characters, so that no text hides in them."""

BLANK = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),  # combining grapheme joiner
        (0x115F, 0x1160),  # Hangul fillers, as are U+3164 and U+FFA0
        (0x17B4, 0x17B5),  # Khmer inherent vowels
        (0x180B, 0x180F),  # Mongolian selectors
        (0x2800, 0x2800),  # Braille without a dot
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),  # variation selectors, as are those from U+E0100 on
        (0xFFA0, 0xFFA0),
        (0x16FE4, 0x16FE4),  # Khitan filler
        (0x1D159, 0x1D159),  # musical null note head
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
"""Invisible characters of other categories (Unicode: Default_Ignorable_Code_Point, and blanks)."""


HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories of controls, bidirectional marks, surrogates and unassigned characters."""

MARKS = frozenset({"Mn", "Me"})

SYMBOLS = frozenset({"So", "Sm", "Po", "Nd", "Sk"})
"""Categories of characters that may be drawn as emoji."""


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which models emit, so that the text can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def sanitize(text: str, limit: int = 300) -> str:
    """Make text one safe line of at most ``limit`` characters; an ellipsis marks the cut.

    Terminal escapes and line breaks are removed. Control, invisible and bidirectional characters,
    and all but four marks on a character, become U+FFFD. Commands of CI systems
    (``##[command]``, ``::command``) are broken up.
    """
    line = " ".join(_ESCAPES.sub("", text).split())
    shown = _neutralize(line[: limit + 1])
    if len(shown) > limit:
        return shown[: limit - 1].rstrip() + "…"
    return shown


def visible(line: str) -> str:
    """Make a line with names from files as safe as ``sanitize`` does, but keep its spaces."""
    return _neutralize(_ESCAPES.sub("", line))


def _neutralize(line: str) -> str:
    shown, before, marks = [], " ", 0
    for char in line:
        category = unicodedata.category(char)
        marks = marks + 1 if category in MARKS else 0
        is_blank = char in BLANK and not is_style(before, char)
        # No ordinary orthography stacks more than four marks.
        is_hidden = category in HIDDEN or is_blank or marks > 4
        shown.append("�" if is_hidden else char)
        before = char
    return break_command(break_hash_command("".join(shown)))


def break_hash_command(line: str) -> str:
    """Break up commands such as ``##vso[`` that CI systems obey anywhere in a line."""
    return re.sub(r"##(?=[\w.]*\[)", "# #", line)


def break_command(line: str) -> str:
    """Break up a CI command at the start of a line, even after white space."""
    return re.sub(r"^(\s*):(?=:)", r"\1: ", line)


def is_style(before: str, char: str) -> bool:
    """True if a variation selector makes the symbol before it text or emoji."""
    return char in "\ufe0e\ufe0f" and unicodedata.category(before) in SYMBOLS


def describe_value(value: Any) -> str:
    """Describe a value from data: a short word verbatim, anything else by type and length.

    A longer text may be one that ``--redact`` must hide.
    """
    if re.fullmatch(r"[\w.+\-\[\]{}]{1,20}", str(value)):
        return repr(value)
    if isinstance(value, str):
        return f"str of {len(value)} characters"
    return type(value).__name__


def is_name(text: str) -> bool:
    """True if a text from data is short enough to be a name, so that messages may show it."""
    return len(text.split()) <= 2 and len(text.encode("utf-8", "replace")) <= 32


def join_names(names: Iterable[str]) -> str:
    """List names from data, such as columns, for a message; only count long or further ones."""
    ordered = sorted(names)
    shown = list(filter(is_name, ordered))[:30]
    rest = len(ordered) - len(shown)
    if not shown:
        return count(rest, "longer name")
    if not rest:
        return ", ".join(shown)
    return f"{', '.join(shown)} and {rest} more"


def join_words(words: Iterable[str]) -> str:
    """Join words as in a sentence, sorted and without repeats: ``degrees, harm and ratings``."""
    *others, last = sorted(set(words))
    if not others:
        return last
    return f"{', '.join(others)} and {last}"


def sanitize_lines(text: str, limit: int = 2000) -> str:
    """Make several lines safe, and keep their indentation.

    Args:
        limit: most characters of each line, and of its indentation.
    """
    lines = text.split("\n")
    # Each different line once: a model that repeats itself, or an empty line, costs nothing.
    harmless = {"": ""}
    for line in set(lines) - {""}:
        indentation = min(limit, len(line) - len(line.lstrip(" ")))
        harmless[line] = " " * indentation + sanitize(line, limit)
    return "\n".join(harmless[line] for line in lines)


def json_text(value: Any) -> str:
    """Write a value as JSON whose lines are safe in a terminal and a CI log."""
    # Other texts than strings have no "#", and every line but the brackets begins with a space.
    return json.dumps(value, indent=2, default=str).replace("##", "\\u0023#")


def format_duration(seconds: float) -> str:
    """Round a duration, for example to ``3 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def count(number: int, noun: str) -> str:
    """Join a number and a noun: ``1 prompt``, ``2 prompts``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
