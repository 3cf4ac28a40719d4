"""Render templates to one file that loads nothing else and shows untrusted text as plain text.

The page runs only its own script: its Content-Security-Policy allows the inline style and script
only by their hashes.
"""

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from refusal_checks.core.redaction import shorten_paths
from refusal_checks.core.text import BLANK, is_style, sanitize

TEMPLATES = Path(__file__).parent / "templates"

_KEPT = {"\n", "\t", "\u200c", "\u200d"}
"""Line breaks, and the joiners that Persian, Bengali and emoji are spelled with."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

_UNSAFE = re.compile(
    "[<>&\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that would end a script element, break its lines or reorder what an editor shows."""


def visible(text: str) -> str:
    """Make every character of untrusted text visible; none is lost or reorders others.

    Control characters become their pictures (ESC becomes ``␛``); bidirectional marks, surrogates
    and other invisible characters become U+FFFD. ``script.js`` follows the same rule.
    """
    lines = text.replace("\r\n", "\n")  # else each line would end in a picture
    return "".join(map(_show_character, f" {lines}", lines))


def _show_character(before: str, char: str) -> str:
    is_blank = char in BLANK and not is_style(before, char)
    if char in _KEPT or not (is_blank or unicodedata.category(char) in _HIDDEN):
        return char
    if char < " ":
        return chr(0x2400 + ord(char))
    return "\u2421" if char == "\x7f" else "\ufffd"


def embed(value: object) -> str:
    """Escape JSON without loss, so that it is safe inside a script element in any encoding.

    No control or bidirectional character is left raw, so the file reads the same in an editor.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    # JSON has four digits; what is beyond them is a pair of surrogates.
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


WHOLE = 26  # most characters of a name that a narrow screen shows in one line

_PIECES = re.compile(r"\s+|[^\s/_-]{1,24}[/_-]*|[/_-]+")
"""Pieces of a name between which a line may break: after slashes, hyphens and underscores, else
after 24 characters, so that no name makes a column wider."""


def breaks(name: str) -> Markup:
    """Allow line breaks in a long name at natural places."""
    if len(name) <= WHOLE:
        return Markup('<span class="whole">{}</span>').format(name)
    return Markup("<wbr>").join(_PIECES.findall(name))


def keep_dates_whole(text: str) -> Markup:
    """Keep dates in a sentence from breaking at their hyphens."""
    whole = re.sub(
        r"\d{4}-\d\d-\d\d", r'<span class="whole">\g<0></span>', str(escape(text))
    )
    return Markup(whole)  # noqa: S704  # escaped


@cache
def environment() -> Environment:
    jinja = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, and not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {
        "visible": visible,
        "sanitize": sanitize,
        "name": partial(sanitize, limit=120),
        "breaks": breaks,
        "keep_dates_whole": keep_dates_whole,
        "shorten_paths": shorten_paths,
        "percent": lambda value: f"{100 * value:.3g}%",
    }
    return jinja


@cache
def _source(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704  # a file of ours


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def document(**values: Any) -> Iterator[str]:
    """Yield the page in parts; ``values`` are passed to its template."""
    style = _source("palette.css") + _source("charts.css") + _source("style.css")
    script = _source("script.js")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(style)}; script-src {_digest(script)}"
    )
    template = environment().get_template("page.html.j2")
    return template.generate(style=style, script=script, policy=policy, **values)
