"""Wordings in which an answer names an option, and wordings that settle on none.

In a template ``{L}`` is the letter (``{W}`` a full-width one) and ``{T}`` the text of an option;
``{X}`` and ``{XT}`` are those of another one, ``{LIST}`` all options as the question shows them.
``UNDERSTOOD`` templates settle on ``{L}`` to any reader; ``AMBIGUOUS`` ones deny it, doubt it, name
several or report another's choice. ``COMPARED`` ones choose ``{r}``, with the text ``{tr}``, before
``{w}`` and ``{tw}``, if anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path

_FOLDER = Path(__file__).parent / "data" / "option_wordings"


def _read(name: str) -> tuple[str, ...]:
    """The templates of a file, one per line, with the escapes of JSON but for quotes."""
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n")
    return tuple(
        json.loads('"' + line.replace('"', '\\"') + '"') for line in lines if line
    )


UNDERSTOOD = _read("understood")
AMBIGUOUS = _read("ambiguous")
COMPARED = _read("compared")


def render(template: str, options: Mapping[str, str], letter: str, other: str) -> str:
    """A template about an option and another one."""
    shown = "\n".join(f"{name}. {text}" for name, text in options.items())
    text, others = (options[name].rstrip("。") for name in (letter, other))
    wide = chr(ord(letter) + 0xFEE0)
    return template.format(L=letter, W=wide, T=text, X=other, XT=others, LIST=shown)


def other_than(letter: str, options: Mapping[str, str], number: int) -> str:
    """One of the other options."""
    others = [name for name in options if name != letter]
    return others[number % len(others)]
