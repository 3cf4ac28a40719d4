"""Markdown for GitHub: the step's summary, a comment on a pull request, annotations in a log.

Summary and comment are the same text. It is public if the repository is, so it has no prompts,
answers or paths, and shows other people's text without markup.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from refusal_checks.core.redaction import redact_paths
from refusal_checks.core.text import sanitize, sanitize_lines
from refusal_checks.io.files import write_text
from refusal_checks.reports import rows
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording.gate_sentences import details, figure, line, reasons
from refusal_checks.wording.release import release_decision

MARKER = "<!-- refusal-checks -->"
"""The first line, which is invisible; a bot uses it to find the comment to replace."""

LARGEST = 60_000
"""Size limit in bytes: GitHub refuses comments of more than 65,536 characters."""

ANNOTATIONS = 10
"""Most annotations of each kind that GitHub shows for one step."""

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$@]|(?<=:)/(?=/)|(?<=www)\.)", re.IGNORECASE)
"""Characters that Markdown or GitHub may read as markup, HTML, a link or a mention."""


def escape(text: str, limit: int = 300) -> str:
    """Escape text to one plain line without markup, HTML or links."""
    return _MARKUP.sub(r"\\\1", sanitize(text, limit))


def code(text: str, limit: int = 300) -> str:
    """Format text as code for a sentence or a table cell.

    GitHub resolves no mentions or links in code, and Markdown sees no markup in entities.
    """
    characters = sanitize(text, limit)
    shown = (
        char if char.isalnum() or char == " " else f"&#{ord(char)};"
        for char in characters
    )
    return f"<code>{''.join(shown)}</code>"


def fold(title: str, lines: Iterable[str]) -> Iterator[str]:
    summary = html.escape(sanitize(title), quote=False)
    yield from ("", f"<details><summary><code>{summary}</code></summary>", "")
    # A block that begins with this tag is not Markdown, not even where its lines are empty.
    yield "<pre>"
    yield from (html.escape(sanitize_lines(line, 1000), quote=False) for line in lines)
    yield from ("</pre>", "", "</details>", "")


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (header, ["---"] * len(header), *lines):
        yield f"| {' | '.join(cells)} |"


def write(run: RunFolder, path: Path) -> None:
    write_text(path, text(run.summary()))


def append(run: RunFolder, path: Path) -> None:
    """Append the text to a step summary, which may have other text already."""
    # In bytes: a step's summary may hold what another step wrote in any encoding.
    with path.open("ab") as file:
        file.write(text(run.summary()).encode("utf-8", "replace"))


def text(run: RunSummary) -> str:
    """The answer, a table of all gates, and why gates failed; cut if too long."""
    # Cut between sections, so that no table or element stays open.
    size, lines = 0, []
    for section in _sections(run):
        size += sum(len(line.encode("utf-8", "replace")) + 1 for line in section)
        if size > LARGEST - 200:
            lines.append("\nThe rest did not fit here: see the run's page.")
            break
        lines += section
    return "\n".join([*lines, ""])


def _sections(run: RunSummary) -> Iterator[Sequence[str]]:
    decision, manifest = release_decision(run), run.manifest
    yield MARKER, f"## May it ship? {escape(decision.headline)}", ""
    judged_by = code(redact_paths(manifest.judge))
    yield [
        f"refusal-checks of {code(redact_paths(manifest.shown))}, judged by {judged_by}"
    ]
    yield "", f"**{escape(redact_paths(decision.line), 2000)}**", ""
    yield from (
        [f"- {escape(redact_paths(line), 600)}"]
        for line in (*run.misnamed, *run.left_out)
    )
    header, ruler, *lines = _gates(run)
    yield "", header, ruler
    yield from ([line] for line in lines)
    for gate, verdict in run.verdicts.items():
        if not verdict.passed:
            heading = f"{gate} (waived)" if verdict.waived else gate
            texts = [*reasons(verdict), figure(verdict), *details(verdict)]
            yield list(fold(heading, map(redact_paths, texts)))


def _gates(run: RunSummary) -> Iterator[str]:
    """The table of all gates and measured figures, without columns that would be empty."""
    lines: list[Sequence[str]] = []
    for row in rows.rows(run):
        if row.is_extra:
            continue
        mark, gate, *figures = row.columns
        if row.error:  # which may quote a text or name a place
            figures[0] = "no verdict"
        bold, indent = ("**", "") if row.is_main else ("", "&emsp;")
        lines.append([f"{bold}{mark}{bold}", f"{indent}{code(gate)}", *figures])
    columns = zip(rows.HEADER, *lines, strict=True)
    shown = [column for column in columns if any(column[1:]) or not lines]
    header, *cells = zip(*shown, strict=True)
    return table(header, cells)


def workflow_commands(run: RunSummary) -> Iterator[str]:
    """Annotations for gates that failed or warn; none outside GitHub Actions.

    Syntax: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
    """
    if (
        os.environ.get("GITHUB_ACTIONS") != "true"
    ):  # elsewhere they would be noise in a log
        return
    errors = list(run.errors.items())
    warnings = []
    for check in run.judge.failed if run.judge else ():
        errors.append((f"test_judge[{check.figure}]", check.headline))
    for gate, verdict in run.verdicts.items():
        if verdict.fails:
            errors.append((gate, line(verdict)))
        elif verdict.waived or verdict.warns:
            warnings.append((gate, line(verdict)))
    for kind, found in (("error", errors), ("warning", warnings)):
        for title, message in found[:ANNOTATIONS]:
            # One harmless line each, escaped as commands are.
            head = sanitize(title, 500).replace("%", "%25")
            said = sanitize(message, 500).replace("%", "%25")
            escaped = head.replace(":", "%3A").replace(",", "%2C")
            yield f"::{kind} title={escaped}::{said}"
