"""What a run's figures were found with: models, judge, engines, tokens, time, and where all is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from refusal_checks.core.text import clean, wrapped
from refusal_checks.judges.trust.check import Check
from refusal_checks.reports import judge_check
from refusal_checks.reports.terminal import tokens
from refusal_checks.reports.terminal.remarks import WIDTH
from refusal_checks.results.disagreements import FILE
from refusal_checks.results.manifest import EnginesUsed, Manifest
from refusal_checks.results.summary import RunSummary


def lines(runs: Sequence[tuple[RunSummary, Path]]) -> Iterator[str]:
    """Lines on runs, each with its folder; those with names and paths may be long.

    What a judge was found to be is told once where several candidates have the same one.
    """
    seen: list[tuple[Check, ...]] = []
    for summary, folder in runs:
        checked = summary.judge
        is_new = checked is not None and checked.checks not in seen
        seen += [checked.checks] if checked else []
        yield _models(summary.manifest)
        for line in judge_check.lines(checked) if checked and is_new else ():
            yield from wrapped(line, WIDTH)
        yield from disagreements(summary, folder)
        yield from _engines(summary.manifest.engines)
        for line in (*tokens.lines(summary.manifest.tokens), *_time(summary)):
            yield from wrapped(line, WIDTH)
        if summary.manifest.store:
            yield f"store {summary.manifest.store}"
        yield f"run folder {folder}"


def _models(known: Manifest) -> str:
    judges = known.models.judges
    named = f"judge{'s' if len(judges) > 1 else ''} {', '.join(judges)}"
    return clean(f"candidate {known.candidate}, {named}", 1000)


def disagreements(summary: RunSummary, folder: Path) -> Iterator[str]:
    """Where several judges were asked: one line that says how often they disagree, and where."""
    found = {name: b.disputed for name, b in summary.benchmarks.items() if b.disputed is not None}
    if not found:
        return
    count = sum(found.values())
    answers = sum(summary.benchmarks[name].answers for name in found)
    by_name = ", ".join(f"{name} {disputed}" for name, disputed in found.items() if disputed)
    listed = f" ({by_name}): {folder / FILE}" if count else ""
    yield f"judges disagree on {count} of {answers} answers{listed}"


def _engines(found: EnginesUsed | None) -> Iterator[str]:
    if not found:
        return
    models = {"started": found.started, "attached": found.attached}
    named = [f"{how} {clean(', '.join(names))}" for how, names in models.items() if names]
    times = " and ".join(f"{seconds:.0f} s" for seconds in found.ready_s)
    ready = f", ready after {times}" if times and found.started else ""
    yield f"engine {'; '.join(named) or 'none: nothing was asked of a model'}{ready}"


def _time(summary: RunSummary) -> Iterator[str]:
    """How long the answers took, and how many of them were there before."""
    asked, seconds = summary.manifest.asked, summary.manifest.evaluation_s
    if seconds is None or not asked:
        return
    answers = sum(found.answers for found in summary.benchmarks.values())
    rate = f", {answers / seconds:.0f} a second" if seconds else ""
    yield (
        f"time {seconds:.1f} s for {answers} answers with their verdicts{rate}; "
        f"{asked.reused} answers were stored, at most {asked.answers} were generated and "
        f"{asked.verdicts} verdicts asked for"
    )
