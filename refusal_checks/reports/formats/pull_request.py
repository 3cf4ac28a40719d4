"""A comment for a pull request in Markdown: verdict, gates and reasons, without a model's texts.

Comments are public where the repository is. The first line is invisible: a bot finds by it the
comment that it has to replace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from refusal_checks.core.files import write_text
from refusal_checks.core.text import placeless
from refusal_checks.reports import markdown, rows
from refusal_checks.reports.explain import remarks_on
from refusal_checks.reports.markdown import code, escape
from refusal_checks.reports.rows import Row
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.shipping import shipping, together
from refusal_checks.results.summary import RunSummary

OPTION = "--pr-comment"
VARIABLE = "REFUSAL_CHECKS_PR_COMMENT"
HELP = "write a Markdown comment for a pull request to this file, without texts"

MARKER = "<!-- refusal-checks -->"

LARGEST = 60_000
"""Most bytes; GitHub refuses comments of more than 65,536 characters."""

_LEFT_OUT = "The rest did not fit here: see the run's report."


def write(runs: Sequence[RunFolder], path: Path) -> None:
    """Write the file. See ``formats.Format.write``."""
    text, room = "", LARGEST - len(_LEFT_OUT) - 100
    for section in _sections([_public(run.summary()) for run in runs]):
        if len((text + section).encode()) > room:
            text += f"\n{_LEFT_OUT}\n"
            break
        text += section
    write_text(path, text)


def _public(run: RunSummary) -> RunSummary:
    """The run without what the names of its models tell of machines and networks."""
    names = ("candidate", "title", "judge")
    shown = {name: placeless(getattr(run.manifest, name)) for name in names}
    return replace(run, manifest=run.manifest.extended(**shown))


def _sections(runs: Sequence[RunSummary]) -> Iterator[str]:
    """Parts that may be left out from the end."""
    yield f"{MARKER}\n## Refusal checks: {escape(together(runs))}\n\n"
    for run in runs:
        models = f"{code(run.manifest.shown)} judged by {code(run.manifest.judge)}"
        yield f"- {models}: {escape(shipping(run).line, 2000)}\n"
    header, ruler, *lines = markdown.table(rows.HEADER, map(_cells, rows.rows(runs)))
    yield f"\n{header}\n{ruler}\n"
    yield from (f"{line}\n" for line in lines)
    for title, verdict in rows.titled(runs):
        if not verdict.passed and not verdict.is_idle:
            remarks = [placeless(each.text) for each in remarks_on(verdict) if each.is_news]
            yield "\n".join(markdown.folded(title + " (waived)" * verdict.waived, remarks))


def _cells(row: Row) -> list[str]:
    mark, gate, candidate, *figures = row.columns
    figures = ["no verdict", *figures[1:]] if row.error else figures
    return [f"**{mark}**", code(gate), code(candidate) * bool(candidate), *figures]
