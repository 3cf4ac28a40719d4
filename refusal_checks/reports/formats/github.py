"""GitHub Actions: table and offenders in the step's summary, annotations in its log.

Syntax: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from refusal_checks.core.text import clean, count
from refusal_checks.reports import markdown
from refusal_checks.reports.markdown import code, escape
from refusal_checks.reports.wording import failures
from refusal_checks.reports.wording.release import release_decision
from refusal_checks.reports.wording.remarks import more_remarks, remarks, wrong
from refusal_checks.reports.wording.verdicts import doubt, sentence, waiver
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

VARIABLE = "GITHUB_STEP_SUMMARY"
HELP = "append table and offenders to the step's summary"

LARGEST = 900_000  # most bytes of a step's summary; GitHub refuses more than 1 MiB
POINTS = 8  # most points of one kind above the table
ANNOTATIONS = 10  # most annotations of each kind that GitHub shows for one step


def write(run: RunFolder, path: Path) -> None:
    summary = run.summary()
    details = markdown.failures(
        summary, lambda verdict: failures.message(verdict).split("\n")
    )
    with path.open("ab") as file:
        sections = chain([_head(summary)], details)
        text = markdown.within(LARGEST - file.tell(), sections, "folder")
        file.write(text.encode("utf-8", "replace"))


def _head(run: RunSummary) -> Iterator[str]:
    decision = release_decision(run)
    yield f"## May it ship? {escape(decision.headline)}"
    yield from ("", f"**{escape(decision.line, 2000)}**", "")
    yield from _points(run)
    yield from ("", *markdown.gates(run, code), "")


def _points(run: RunSummary) -> Iterator[str]:
    if run.failure:
        yield f"- {code(run.failure, 1000)}"
    failed = list(wrong(run))
    for text, example in failed[:POINTS]:
        shown = ""
        if example:
            more = ""
            if example.more:
                more = f" and {count(example.more, 'more prompt')}, see below"
            prompt = f"{code(example.id, 60)}: {code(example.prompt, 200)}"
            shown = f"<br>For example {prompt}{more}"
        yield f"- {escape(text, 600)}{shown}"
    if len(failed) > POINTS:
        yield f"- {count(len(failed) - POINTS, 'more gate')} failed: see the table"
    for text in (*remarks(run), *more_remarks(run)):
        yield f"- {escape(text, 600)}"
    yield f"- candidate {code(run.manifest.candidate)}, judge {code(run.manifest.judge)}"


def commands(run: RunSummary) -> Iterator[str]:
    """Annotations, one line per gate that failed or warns; none outside GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    errors: list[tuple[str, str]] = []
    warnings: list[tuple[str, str]] = []
    for check in run.judge.checks if run.judge else ():
        if check.passed:
            continue
        if check.mark == "FAIL":
            errors.append((f"test_judge[{check.figure}]", check.headline))
        elif check.mark == "weak":
            warnings.append(("judge", check.headline))
    for gate, verdict in run.verdicts.items():
        if verdict.fails:
            errors.append((gate, sentence(verdict)))
        elif verdict.waived:
            texts = [*waiver(verdict), sentence(verdict)]
            warnings.append((gate, "; ".join(texts)))
        elif verdict.passed and verdict.warns:
            warnings.append((gate, doubt(verdict)))
    errors += run.errors.items()
    for kind, annotations in (("error", errors), ("warning", warnings)):
        for title, message in annotations[:ANNOTATIONS]:
            # One harmless line each, escaped as commands are.
            head = clean(title, 500).replace("%", "%25")
            text = clean(message, 500).replace("%", "%25")
            escaped = head.replace(":", "%3A").replace(",", "%2C")
            yield f"::{kind} title={escaped}::{text}"
