"""Markdown in which untrusted text is shown and does nothing."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from refusal_checks.core.text import clean, clean_lines

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$@]|(?<=:)/(?=/)|(?<=www)\.)", re.IGNORECASE)
"""What Markdown, or GitHub's, may read as markup, HTML, a link or a mention."""


def escape(text: str, limit: int = 300) -> str:
    """One line of plain text: nothing in it is markup, HTML or a link."""
    return _MARKUP.sub(r"\\\1", clean(text, limit))


def code(text: str, limit: int = 300) -> str:
    """Text as code within a sentence or a cell of a table.

    GitHub finds no mentions and links in code, and Markdown no markup in entities.
    """
    characters = clean(text, limit)
    shown = (char if char.isalnum() or char == " " else f"&#{ord(char)};" for char in characters)
    return f"<code>{''.join(shown)}</code>"


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines as they are, folded behind a title."""
    summary = html.escape(clean(title), quote=False)
    yield from ("", f"<details><summary><code>{summary}</code></summary>", "")
    # A block that begins with this tag is not Markdown, not even where its lines are empty.
    yield "<pre>"
    yield from (html.escape(clean_lines(line, 1000), quote=False) for line in lines)
    yield from ("</pre>", "", "</details>", "")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; the cells are Markdown."""
    for cells in (header, ["---"] * len(header), *rows):
        yield f"| {' | '.join(cells)} |"
