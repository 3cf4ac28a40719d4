"""What a run was made with: models, judge, engines, tokens, time; and how to continue one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from refusal_checks.core.text import clean, count, wrapped
from refusal_checks.core.verdicts import Reason
from refusal_checks.judges.trust.canary import Check
from refusal_checks.models.client.answers import Usage
from refusal_checks.reports import messages, remarks
from refusal_checks.reports.terminal import WIDTH
from refusal_checks.results.export import DISAGREEMENTS
from refusal_checks.results.manifest import EnginesUsed, Manifest
from refusal_checks.results.progress import Progress
from refusal_checks.results.summary import RunSummary


def footer(runs: Sequence[tuple[RunSummary, Path]], width: int = WIDTH) -> Iterator[str]:
    """Lines about runs, each with its folder; lines with names and paths may be long.

    The check of a judge that several candidates share is shown once.

    Args:
        width: columns to fill.
    """
    for line in remarks.bundled_scope([summary for summary, _ in runs]):
        yield from wrapped(line, width)
    seen: list[tuple[Check, ...]] = []
    for summary, folder in runs:
        judge = summary.judge
        yield _models(summary.manifest)
        if judge and judge.checks not in seen:
            seen.append(judge.checks)
            for line in messages.judge_lines(judge):
                yield from wrapped(line, width)
        yield from disagreements(summary, folder)
        yield from readings(summary)
        yield from _engines(summary.manifest.engines)
        for line in (*tokens(summary.manifest.tokens), *_time(summary)):
            yield from wrapped(line, width)
        yield from map(clean, _unpinned(summary.manifest))
        if summary.manifest.store:
            yield f"store {summary.manifest.store}"


def _models(manifest: Manifest) -> str:
    judges = manifest.models.judges
    named = f"judge{'s' if len(judges) > 1 else ''} {', '.join(judges)}"
    return clean(f"candidate {manifest.candidate}, {named}", 1000)


def _unpinned(manifest: Manifest) -> Iterator[str]:
    names = [name for name, data in manifest.data.items() if data.pinned is False]
    if names:
        yield f"unpinned rows: {', '.join(names)} (see docs/how-to/data.md, How it is pinned)"


def disagreements(summary: RunSummary, folder: Path) -> Iterator[str]:
    """One line on how often several judges disagree, and the file that lists the answers."""
    disputed = {
        name: benchmark.disputed
        for name, benchmark in summary.benchmarks.items()
        if benchmark.disputed is not None
    }
    if not disputed:
        return
    total = sum(disputed.values())
    seconded = {name: summary.benchmarks[name].second for name in disputed}
    answers = sum(
        found.asked if found else summary.benchmarks[name].answers
        for name, found in seconded.items()
    )
    by_name = ", ".join(f"{name} {number}" for name, number in disputed.items() if number)
    listed = f" ({by_name}): {folder / DISAGREEMENTS}" if total else ""
    yield f"judges disagree on {total} of {answers} answers{listed}"


def readings(summary: RunSummary) -> Iterator[str]:
    """One line per multiple-choice benchmark on who read the options."""
    for name, found in summary.benchmarks.items():
        if found.read_by:
            rules, judge = (found.read_by.get(who, 0) for who in ("rules", "judge"))
            unread = sum(found.invalid.get(str(why), 0) for why in _UNREAD)
            yield f"options in {name}: {rules} read by rules, {judge} by the judge, {unread} unread"


_UNREAD = (Reason.NO_OPTION, Reason.SEVERAL_OPTIONS)


def _engines(engines: EnginesUsed | None) -> Iterator[str]:
    if not engines:
        return
    models = {"started": engines.started, "attached": engines.attached}
    named = [f"{how} {clean(', '.join(names))}" for how, names in models.items() if names]
    times = " and ".join(f"{seconds:.0f} s" for seconds in engines.ready_s)
    ready = f", ready after {times}" if times and engines.started else ""
    yield f"engine {'; '.join(named) or 'none: no model was needed'}{ready}"


def tokens(used: Mapping[str, Usage]) -> Iterator[str]:
    """One line with the tokens of candidate and judge; none if no model was asked."""
    asked = {role: usage for role, usage in used.items() if usage.requests}
    if asked:
        yield "tokens: " + "; ".join(_role(role, usage) for role, usage in asked.items())


def _role(role: str, usage: Usage) -> str:
    requests = f"{usage.requests:,} requests"
    if not usage.prompt + usage.output:
        return f"{role} unknown in {requests}"
    cost = f"{role} {_cost(usage, 1)} in {requests}"
    if usage.retries:
        cost += f" and {usage.retries:,} retries"
    return cost + (f", per verdict: {_cost(usage, usage.verdicts)}" if usage.verdicts else "")


def _cost(usage: Usage, share: int) -> str:
    counts = (usage.prompt, usage.cached, usage.output)
    prompt, cached, output = (round(number / share) for number in counts)
    from_cache = f" ({cached:,} cached)" if cached else ""
    return f"{prompt:,} prompt{from_cache}, {output:,} output"


def _time(summary: RunSummary) -> Iterator[str]:
    """How long the answers took, and how many of them were stored already."""
    asked, seconds = summary.manifest.asked, summary.manifest.evaluation_s
    if seconds is None or not asked:
        return
    found = [one for one in summary.benchmarks.values() if not one.is_repeated]
    answers = sum(one.answers for one in found)
    rate = f", {answers / seconds:.0f} per second" if seconds else ""
    yield (
        f"time {seconds:.1f} s for {answers} answers with verdicts{rate}; {asked.reused} "
        f"answers were stored already, at most {asked.answers} were generated and "
        f"{asked.verdicts} verdicts requested"
    )


def unfinished(
    progress: Progress, summary: RunSummary, gates: int, store: Path, fresh: bool
) -> Iterator[str]:
    """What an interrupted run has done, and how to continue it; nothing about a complete run.

    Args:
        gates: how many the run was to decide.
        store: where the finished work is.
        fresh: True if that store is only this run's.
    """
    counts = progress.benchmarks
    if not counts or all(done.done for done in counts.values()):
        return
    for name, done in counts.items():
        partly = f"{done.answered} of {done.planned} prompts answered, {done.judged} judged"
        yield f"{name}: " + (f"complete, {done.judged} prompts" if done.done else partly)
    yield f"{len(summary.verdicts)} of {count(gates, 'gate')} decided"
    if fresh:
        yield f"to continue, run the same command with --store {store} instead of --fresh"
    else:
        yield f"to continue, run the same command again: {store} holds the finished work"
