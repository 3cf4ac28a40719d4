"""Markdown that shows untrusted text inert, and the parts that comments share."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from refusal_checks.core.text import clean, clean_lines
from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports import rows
from refusal_checks.results.summary import RunSummary

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$@]|(?<=:)/(?=/)|(?<=www)\.)", re.IGNORECASE)
"""Characters that Markdown or GitHub may read as markup, HTML, a link or a mention."""


def escape(text: str, limit: int = 300) -> str:
    """Escape text to one plain line without markup, HTML or links."""
    return _MARKUP.sub(r"\\\1", clean(text, limit))


def code(text: str, limit: int = 300) -> str:
    """Format text as code for a sentence or a table cell.

    GitHub resolves no mentions or links in code, and Markdown sees no markup in entities.
    """
    characters = clean(text, limit)
    shown = (
        char if char.isalnum() or char == " " else f"&#{ord(char)};"
        for char in characters
    )
    return f"<code>{''.join(shown)}</code>"


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    summary = html.escape(clean(title), quote=False)
    yield from ("", f"<details><summary><code>{summary}</code></summary>", "")
    # A block that begins with this tag is not Markdown, not even where its lines are empty.
    yield "<pre>"
    yield from (html.escape(clean_lines(line, 1000), quote=False) for line in lines)
    yield from ("</pre>", "", "</details>", "")


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (header, ["---"] * len(header), *lines):
        yield f"| {' | '.join(cells)} |"


def gates(run: RunSummary, error: Callable[[str], str]) -> Iterator[str]:
    """The table of all gates; ``error`` formats why one has no verdict."""

    def cells(row: rows.Row) -> list[str]:
        mark, gate, *figures = row.columns
        figures = [error(row.error), *figures[1:]] if row.error else figures
        bold, indent = ("**", "") if row.is_main else ("", "&emsp;")
        return [f"{bold}{mark}{bold}", f"{indent}{code(gate)}", *figures]

    lines = [rows.HEADER, *map(cells, rows.rows(run))]
    columns = (
        column
        for column in zip(*lines, strict=True)
        if any(column[1:]) or not lines[1:]
    )
    header, *shown = zip(*columns, strict=True)
    return table(header, shown)


def failures(
    run: RunSummary, details: Callable[[Verdict], Iterable[str]]
) -> Iterator[list[str]]:
    for gate, verdict in run.verdicts.items():
        if not verdict.passed:
            heading = f"{gate} (waived)" if verdict.waived else gate
            yield list(folded(heading, details(verdict)))


def within(most: int, sections: Iterable[Iterable[str]], place: str) -> str:
    """Join as many sections as fit into ``most`` bytes; say that ``place`` has the rest."""
    size, lines = 0, []
    for section in map(list, sections):
        size += sum(len(line.encode()) + 1 for line in section)
        if size > most - 200:
            lines.append(f"\nThe rest did not fit here: see the run's {place}.")
            break
        lines += section
    return "\n".join([*lines, ""])
