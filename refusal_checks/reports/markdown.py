"""Untrusted text in Markdown that GitHub renders: it is shown, and does nothing.

Code is where GitHub looks for no mentions, references and links, and entities are what Markdown
reads no markup in; so text is both.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from refusal_checks.core.text import clean, clean_lines


def code(text: str, limit: int = 300) -> str:
    """Text as one line within a sentence or a cell of a table."""
    return f"<code>{_entities(clean(text, limit))}</code>"


def _entities(text: str) -> str:
    plain = str.isalnum
    return "".join(char if plain(char) or char == " " else f"&#{ord(char)};" for char in text)


def block(lines: Iterable[str], limit: int = 1000) -> list[str]:
    """Lines as they are, in a block of its own; an empty line must stand before and after it."""
    shown = [html.escape(clean_lines(line, limit), quote=False) for line in lines]
    # A block that begins with this tag is no Markdown until its end, empty lines included.
    return ["<pre>", *shown, "</pre>"]


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """Lines behind a title."""
    summary = html.escape(clean(title), quote=False)
    opened = f"<details><summary><code>{summary}</code></summary>"
    return ["", opened, "", *block(lines), "", "</details>", ""]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; the cells are Markdown."""
    ruled = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cells)} |" for cells in ruled]
