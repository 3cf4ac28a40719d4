"""GitHub Actions: table and offenders in the step's summary, annotations in its log.

Syntax: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from refusal_checks.core.text import clean, count
from refusal_checks.gates.sentences import sentence
from refusal_checks.judges.trust.floors import Check
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
    shown_points: set[str] = set()
    for run in runs:
        yield from ("", f"**{escape(release_decision(run).line, 2000)}**", "")
        points = [line for line in _points(run) if line not in shown_points]
        shown_points.update(points)  # of a judge that the runs share, for example
        yield from points
    yield from ("", *markdown.gates(runs, code), "")


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


def commands(runs: Sequence[RunSummary]) -> Iterator[str]:
    """Annotations, one line per gate that failed or warns; none outside GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    errors: list[tuple[str, str]] = []
    warnings: list[tuple[str, str]] = []
    # A check of the judge that several runs share is told once.
    missed: dict[str, Check] = {}
    for run in runs:
        for check in run.judge.checks if run.judge else ():
            if not check.passed:
                missed[check.headline] = check
    for headline, check in missed.items():
        if check.mark == "FAIL":
            errors.append((f"test_judge[{check.figure}]", headline))
        elif check.mark == "weak":
            warnings.append(("judge", headline))
    for title, verdict in rows.titled(runs):
        if verdict.fails:
            errors.append((title, sentence(verdict)))
        elif verdict.waived:
            texts = [*select(verdict, "waiver"), sentence(verdict)]
            warnings.append((title, "; ".join(texts)))
        elif verdict.passed and verdict.warns:
            warnings.append((title, doubt(verdict)))
    for run, name in zip(runs, rows.candidate_names(runs), strict=True):
        for gate, error in run.errors.items():
            errors.append((f"{gate}, {name}" if name else gate, error))
    for kind, annotations in (("error", errors), ("warning", warnings)):
        for title, message in annotations[:ANNOTATIONS]:
            # One harmless line each, escaped as commands are.
            head = clean(title, 500).replace("%", "%25")
            text = clean(message, 500).replace("%", "%25")
            escaped = head.replace(":", "%3A").replace(",", "%2C")
            yield f"::{kind} title={escaped}::{text}"
