"""GitHub Actions: table and offenders in the step's summary, annotations in its log.

Syntax: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from refusal_checks.core.text import clean, count
from refusal_checks.gates.sentences import sentence
from refusal_checks.reports import markdown, messages, remarks
from refusal_checks.reports.explain import doubt, select
from refusal_checks.reports.markdown import code, escape
from refusal_checks.results.release import release_decision
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

OPTION = ""
VARIABLE = "GITHUB_STEP_SUMMARY"
HELP = "append table and offenders to the step's summary"

LARGEST = 900_000  # most bytes of a step's summary; GitHub refuses more than 1 MiB
POINTS = 8  # most points of one kind above the table
ANNOTATIONS = 10  # most annotations of each kind that GitHub shows for one step


def write(run: RunFolder, path: Path) -> None:
    summary = run.summary()
    details = markdown.failures(
        summary, lambda verdict: messages.message(verdict).split("\n")
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
    wrong = list(remarks.wrong(run))
    for text, example in wrong[:POINTS]:
        shown = ""
        if example:
            more = ""
            if example.more:
                more = f" and {count(example.more, 'more prompt')}, see below"
            prompt = f"{code(example.id, 60)}: {code(example.prompt, 200)}"
            shown = f"<br>For example {prompt}{more}"
        yield f"- {escape(text, 600)}{shown}"
    if len(wrong) > POINTS:
        yield f"- {count(len(wrong) - POINTS, 'more gate')} failed: see the table"
    yield from (f"- {escape(text, 600)}" for text in run.manifest.left_out)
    refused = remarks.refused_in_all(run)
    if refused:
        yield f"- {escape(refused, 600)}"
    yield from (f"- {escape(text, 600)}" for text in remarks.weighty(run))
    yield from (f"- {escape(text)}" for text in remarks.lighter(run))
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
            texts = [*select(verdict, "waiver"), sentence(verdict)]
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
