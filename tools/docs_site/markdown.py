"""Write pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table; line breaks within a cell become spaces."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def code(text: object) -> str:
    """Write text as inline code."""
    return f"`{text}`"


def sentence(text: str) -> str:
    """Begin a text with a capital letter, and drop its full stop."""
    return text[:1].upper() + text[1:].rstrip(".")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
