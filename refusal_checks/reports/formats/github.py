"""GitHub Actions: table and offenders in the step's summary, annotations in its log.

Syntax: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from refusal_checks.core.text import clean, count
from refusal_checks.gates.explain import sentence
from refusal_checks.reports import markdown, messages, remarks
from refusal_checks.reports import rows as table
from refusal_checks.reports.explain import Topic, doubt, select
from refusal_checks.reports.markdown import code, escape
from refusal_checks.reports.rows import Row
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.shipping import shipping, together
from refusal_checks.results.summary import RunSummary

OPTION = ""
VARIABLE = "GITHUB_STEP_SUMMARY"
HELP = "append table and offenders to the step's summary"

LARGEST = 900_000
"""Most bytes of a step's summary; GitHub refuses more than 1 MiB."""

POINTS = 8
"""Most points of one kind above the table."""

ANNOTATIONS = 10
"""Most annotations of each kind that GitHub shows for one step."""


def write(runs: Sequence[RunFolder], path: Path) -> None:
    """Append to the step's summary. See ``formats.Format.write``."""
    summaries = [run.summary() for run in runs]
    with path.open("ab") as file:
        text = "\n".join(_within(summaries, LARGEST - file.tell()))
        file.write(text.encode("utf-8", "replace") + b"\n")


def _within(runs: Sequence[RunSummary], most: int) -> Iterator[str]:
    """As many sections of the summary as fit into ``most`` bytes."""
    size = 0
    for section in chain([list(_head(runs))], _details(runs)):
        size += sum(len(line.encode()) + 1 for line in section)
        if size > most:
            yield "The rest did not fit here: see the run's folder."
            return
        yield from section


def _head(runs: Sequence[RunSummary]) -> Iterator[str]:
    """The answer, what is wrong in words and an answer that shows it, then the table."""
    yield f"## May it ship? {escape(together(runs))}"
    told: set[str] = set()
    for run in runs:
        yield ""
        yield f"**{escape(shipping(run).line, 2000)}**"
        yield ""
        points = [line for line in _points(run) if line not in told]
        told.update(points)  # of a judge that the runs share, for example
        yield from points
    yield ""
    yield from markdown.table(table.HEADER, map(_cells, table.rows(runs)))
    yield ""


def _points(run: RunSummary) -> Iterator[str]:
    """What matters most of one run, as a list; the models last."""
    if run.failure:
        yield f"- {code(run.failure, 1000)}"
    wrong = list(remarks.wrong(run))
    for text, example in wrong[:POINTS]:
        shown = ""
        if example:
            more = f" and {count(example.more, 'more prompt')}, see below" if example.more else ""
            prompt = f"{code(example.id, 60)}: {code(example.prompt, 200)}"
            shown = f"<br>For example {prompt}{more}"
        yield f"- {escape(text, 600)}{shown}"
    if len(wrong) > POINTS:
        yield f"- {count(len(wrong) - POINTS, 'more gate')} failed: see the table"
    yield from (f"- {escape(text, 600)}" for text in remarks.weighty(run))
    yield from (f"- {escape(text)}" for text in remarks.lighter(run))
    yield f"- candidate {code(run.manifest.candidate)}, judge {code(run.manifest.judge)}"


def _cells(row: Row) -> list[str]:
    mark, gate, candidate, *figures = row.columns
    if row.error:
        figures = [code(row.error), *figures[1:]]
    stands_out = "**" if row.is_main else ""
    named = code(gate) if row.is_main else f"&emsp;{code(gate)}"
    return [f"{stands_out}{mark}{stands_out}", named, code(candidate) * bool(candidate), *figures]


def _details(runs: Sequence[RunSummary]) -> Iterator[list[str]]:
    """The message of each gate that failed, waived or not, folded."""
    for title, verdict in table.titled(runs):
        if not verdict.passed:
            title += " (waived)" * verdict.waived
            yield list(markdown.folded(title, messages.message(verdict).split("\n")))


def commands(runs: Sequence[RunSummary]) -> Iterator[str]:
    """Annotations, one line per gate that failed or warns; none outside GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    for kind, found in (("error", _errors(runs)), ("warning", _warnings(runs))):
        for title, message in islice(found, ANNOTATIONS):
            escaped = _data(title).replace(":", "%3A").replace(",", "%2C")
            yield f"::{kind} title={escaped}::{_data(message)}"


def _errors(runs: Sequence[RunSummary]) -> Iterator[tuple[str, str]]:
    checks = (check for run in runs if run.judge for check in run.judge.checks)
    failed = {check.headline: check for check in checks if not check.passed}
    for text, check in failed.items():  # one that several runs share, once
        yield f"test_judge[{check.figure}]", text
    for title, verdict in table.titled(runs):
        if verdict.fails:
            yield title, sentence(verdict)
    for run, name in zip(runs, table.candidate_names(runs), strict=True):
        for gate_id, error in run.errors.items():
            yield f"{gate_id}, {name}" if name else gate_id, error


def _warnings(runs: Sequence[RunSummary]) -> Iterator[tuple[str, str]]:
    for title, verdict in table.titled(runs):
        if verdict.waived:
            yield title, "; ".join([*select(verdict, Topic.WAIVER), sentence(verdict)])
        elif verdict.passed and verdict.warns:
            yield title, doubt(verdict)


def _data(text: str) -> str:
    """A command's message: one harmless line, escaped as commands are."""
    return clean(text, 500).replace("%", "%25")
