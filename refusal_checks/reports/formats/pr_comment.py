"""A comment for a pull request in Markdown: verdict, gates and reasons, without a model's texts.

Comments are public if the repository is. The first line is invisible; a bot uses it to find the
comment to replace.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from refusal_checks.core.files import write_text
from refusal_checks.core.redaction import placeless
from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports import markdown
from refusal_checks.reports.markdown import code, escape
from refusal_checks.reports.wording.release import release_decision
from refusal_checks.reports.wording.verdicts import details, headline, reasons
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

VARIABLE = "REFUSAL_CHECKS_PR_COMMENT"
USUAL_FILE = "pr-comment.md"
HELP = "write a Markdown comment for a pull request to this file, without texts"

MARKER = "<!-- refusal-checks -->"

LARGEST = 60_000  # most bytes; GitHub refuses comments of more than 65,536 characters


def write(run: RunFolder, path: Path) -> None:
    sections = _sections(_public(run.summary()))
    write_text(path, markdown.within(LARGEST, sections, "report"))


def _public(run: RunSummary) -> RunSummary:
    """Remove what the names of a run's models reveal of machines and networks."""
    names = ("candidate", "title", "judge")
    shown = {name: placeless(getattr(run.manifest, name)) for name in names}
    return replace(run, manifest=run.manifest.extended(**shown))


def _sections(run: RunSummary) -> Iterator[Sequence[str]]:
    """Sections of the comment; the last ones are left out first."""
    decision = release_decision(run)
    yield MARKER, f"## Refusal checks: {escape(decision.headline)}", ""
    models = f"{code(run.manifest.shown)} judged by {code(run.manifest.judge)}"
    yield [f"- {models}: {escape(placeless(decision.line), 2000)}"]
    yield [f"- {escape(placeless(line), 600)}" for line in run.manifest.left_out]
    header, ruler, *lines = markdown.gates(run, lambda _: "no verdict")
    yield "", header, ruler
    yield from ([line] for line in lines)
    yield from markdown.failures(run, _news)


def _news(verdict: Verdict) -> list[str]:
    texts = [*reasons(verdict), headline(verdict), *details(verdict)]
    return [placeless(text) for text in texts]
