"""GitHub Actions: table and offenders in the step's summary, annotations in its log.

Syntax: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from refusal_checks.core.text import clean, count
from refusal_checks.gates.sentences import sentence
from refusal_checks.reports import markdown, messages, remarks, rows
from refusal_checks.reports.explain import doubt, select
from refusal_checks.reports.markdown import code, escape
from refusal_checks.results.release import release_decision, together
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

OPTION = ""
VARIABLE = "GITHUB_STEP_SUMMARY"
HELP = "append table and offenders to the step's summary"

LARGEST = 900_000  # most bytes of a step's summary; GitHub refuses more than 1 MiB
POINTS = 8  # most points of one kind above the table
ANNOTATIONS = 10  # most annotations of each kind that GitHub shows for one step


def write(runs: Sequence[RunFolder], path: Path) -> None:
    summaries = [run.summary() for run in runs]
    details = markdown.failures(
        summaries, lambda verdict: messages.message(verdict).split("\n")
    )
    with path.open("ab") as file:
        sections = chain([_head(summaries)], details)
        text = markdown.within(LARGEST - file.tell(), sections, "folder")
        file.write(text.encode("utf-8", "replace"))


def _head(runs: Sequence[RunSummary]) -> Iterator[str]:
    yield f"## May it ship? {escape(together(runs))}"
    told: set[str] = set()
    for run in runs:
        yield from ("", f"**{escape(release_decision(run).line, 2000)}**", "")
        points = [line for line in _points(run) if line not in told]
        told.update(points)  # of a judge that the runs share, for example
        yield from points
    yield from ("", *markdown.gates(runs, code), "")


def _points(run: RunSummary) -> Iterator[str]:
    if run.failure:
        yield f"- {code(run.failure, 1000)}"
    wrong = list(remarks.wrong(run))
    for text, example in wrong[:POINTS]:
        shown = ""
        if example:
            more = (
                f" and {count(example.more, 'more prompt')}, see below"
                if example.more
                else ""
            )
            prompt = f"{code(example.id, 60)}: {code(example.prompt, 200)}"
            shown = f"<br>For example {prompt}{more}"
        yield f"- {escape(text, 600)}{shown}"
    if len(wrong) > POINTS:
        yield f"- {count(len(wrong) - POINTS, 'more gate')} failed: see the table"
    yield from (f"- {escape(text, 600)}" for text in run.manifest.left_out)
    yield from (f"- {escape(text, 600)}" for text in remarks.weighty(run))
    yield from (f"- {escape(text)}" for text in remarks.lighter(run))
    yield f"- candidate {code(run.manifest.candidate)}, judge {code(run.manifest.judge)}"


def commands(runs: Sequence[RunSummary]) -> Iterator[str]:
    """Annotations, one line per gate that failed or warns; none outside GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    checks = (check for run in runs if run.judge for check in run.judge.checks)
    # A check of the judge that several runs share is told once.
    missed = {check.headline: check for check in checks if not check.passed}.values()
    errors = [
        (f"test_judge[{x.figure}]", x.headline) for x in missed if x.mark == "FAIL"
    ]
    warnings = [("judge", x.headline) for x in missed if x.mark == "weak"]
    for title, verdict in rows.titled(runs):
        if verdict.fails:
            errors.append((title, sentence(verdict)))
        elif verdict.waived:
            told = [*select(verdict, "waiver"), sentence(verdict)]
            warnings.append((title, "; ".join(told)))
        elif verdict.passed and verdict.warns:
            warnings.append((title, doubt(verdict)))
    for run, name in zip(runs, rows.candidate_names(runs), strict=True):
        for gate, error in run.errors.items():
            errors.append((f"{gate}, {name}" if name else gate, error))
    for kind, found in (("error", errors), ("warning", warnings)):
        for title, message in found[:ANNOTATIONS]:
            # One harmless line each, escaped as commands are.
            head, text = (
                clean(each, 500).replace("%", "%25") for each in (title, message)
            )
            escaped = head.replace(":", "%3A").replace(",", "%2C")
            yield f"::{kind} title={escaped}::{text}"
