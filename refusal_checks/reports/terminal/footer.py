"""Footer of a run: models, judge, engines, tokens, time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from refusal_checks.core.layout import wrapped
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Reason
from refusal_checks.judges.trust.check_sets import KINDS
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.models.client.usage import Usage
from refusal_checks.reports import remarks
from refusal_checks.reports.terminal.gate_table import WIDTH
from refusal_checks.results.answers import DISAGREEMENTS
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary


def footer(summary: RunSummary, folder: Path, width: int = WIDTH) -> Iterator[str]:
    """The footer of a run. Lines with names and paths may be long."""
    for line in remarks.of_judges(summary):
        yield from wrapped(line, width)
    manifest = summary.manifest
    yield _models(manifest)
    if summary.judge:
        for line in _judge(summary.judge):
            yield from wrapped(line, width)
        if summary.judge_means:
            yield from wrapped(f"  {clean(summary.judge_means, 500)}", width)
    yield from _disagreements(summary, folder)
    yield from _options_read(summary)
    yield from _engines(manifest)
    for line in (*tokens(manifest.tokens), *_time(summary)):
        yield from wrapped(line, width)
    yield from _unpinned(manifest)
    if manifest.store:
        yield f"store {manifest.store}"


def _models(manifest: Manifest) -> str:
    judges = manifest.models.judges
    noun = "judges" if len(judges) > 1 else "judge"
    return clean(f"candidate {manifest.candidate}, {noun} {', '.join(judges)}", 1000)


def _judge(judge: JudgeCheck) -> Iterator[str]:
    """Whether the judge is trusted, with the figures of its check."""
    trusted = "is trusted" if judge.is_trusted else "is NOT trusted"
    cost = f"at most {judge.asked} verdicts asked for, {judge.seconds:.1f} s"
    yield f"judge {clean(judge.judge, 60)} {trusted} by its own check ({cost}):"
    for check in judge.checks:
        if check.figure not in KINDS or not check.passed:
            yield f"  {check.mark}  {clean(check.headline, 500)}"


def _disagreements(summary: RunSummary, folder: Path) -> Iterator[str]:
    """How often several judges disagree, and the file with those answers."""
    total = answers = 0
    parts = []
    is_panel = False
    for name, benchmark in summary.benchmarks.items():
        if benchmark.disputed is None:
            continue
        is_panel = True
        total += benchmark.disputed
        answers += benchmark.answers
        if benchmark.disputed:
            parts.append(f"{name} {benchmark.disputed}")
    if is_panel:
        line = f"judges disagree on {total} of {answers} answers"
        if total:
            line += f" ({', '.join(parts)}): {folder / DISAGREEMENTS}"
        yield line


def _options_read(summary: RunSummary) -> Iterator[str]:
    """Who read the multiple-choice answers, and how many could not be read."""
    for name, benchmark in summary.benchmarks.items():
        if benchmark.read_by:
            rules, judge = (benchmark.read_by.get(who, 0) for who in ("rules", "judge"))
            reasons = (Reason.NO_OPTION, Reason.SEVERAL_OPTIONS)
            unread = sum(benchmark.invalid.get(str(reason), 0) for reason in reasons)
            yield f"options in {name}: {rules} read by rules, {judge} by the judge, {unread} unread"


def _engines(manifest: Manifest) -> Iterator[str]:
    engines = manifest.engines
    if not engines:
        return
    parts = []
    for how, models in (("started", engines.started), ("attached", engines.attached)):
        if models:
            parts.append(f"{how} {clean(', '.join(models))}")
    line = f"engine {'; '.join(parts) or 'none: no model was needed'}"
    if engines.started and engines.ready_s:
        times = " and ".join(f"{seconds:.0f} s" for seconds in engines.ready_s)
        line += f", ready after {times}"
    yield line


def tokens(used: Mapping[str, Usage]) -> Iterator[str]:
    """One line with the tokens of candidate and judge; none if no model was asked."""
    parts = [
        _role_tokens(role, usage) for role, usage in used.items() if usage.requests
    ]
    if parts:
        yield f"tokens: {'; '.join(parts)}"


def _role_tokens(role: str, usage: Usage) -> str:
    if not usage.prompt + usage.output:  # the server does not say
        return f"{role} unknown in {usage.requests:,} requests"
    text = f"{role} {_token_counts(usage, 1)} in {usage.requests:,} requests"
    if usage.retries:
        text += f" and {usage.retries:,} retries"
    if usage.verdicts:
        text += f", per verdict: {_token_counts(usage, usage.verdicts)}"
    return text


def _token_counts(usage: Usage, share: int) -> str:
    """Token counts, divided by ``share``."""
    counts = (usage.prompt, usage.cached, usage.output)
    prompt, cached, output = (round(number / share) for number in counts)
    from_cache = f" ({cached:,} cached)" if cached else ""
    return f"{prompt:,} prompt{from_cache}, {output:,} output"


def _time(summary: RunSummary) -> Iterator[str]:
    asked, seconds = summary.manifest.asked, summary.manifest.evaluation_s
    if not asked or seconds is None:
        return
    answers = sum(benchmark.answers for benchmark in summary.benchmarks.values())
    rate = f", {answers / seconds:.0f} per second" if seconds else ""
    yield (
        f"time {seconds:.1f} s for {answers} answers with verdicts{rate}; {asked.reused} answers "
        f"were stored already, at most {asked.answers} were generated and {asked.verdicts} "
        "verdicts requested"
    )


def _unpinned(manifest: Manifest) -> Iterator[str]:
    names = [name for name, data in manifest.data.items() if not data.pinned]
    if names:
        where = "see docs/how-to/data.md, How it is pinned"
        yield clean(f"unpinned rows: {', '.join(names)} ({where})")
