"""What the terminal shows about an ended run: gates, what to know, the run's folder, the answer.

With ``-v`` also each gate's details, models and settings; after an interruption, how to continue.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.layout import columns, cut, wrapped
from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import Reason
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.metrics import main_metric
from refusal_checks.models.client.usage import Usage
from refusal_checks.reports import rows as table_rows
from refusal_checks.reports.rows import HEADER, Row
from refusal_checks.reports.wording.release import release_decision
from refusal_checks.reports.wording.remarks import more_remarks, remarks
from refusal_checks.reports.wording.verdicts import details, reasons
from refusal_checks.results import project
from refusal_checks.results.answers import DISAGREEMENTS
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.events import Progress
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH, LEAST = 100, 40
"""Greatest and least width of output, in columns, whatever the terminal's size."""

ROWS = 12
"""Above so many rows, the table folds passed gates on groups."""

REMARKS = 4
"""The most remarks that are shown without ``-v``."""

STYLES = {
    **dict.fromkeys(("pass", "yes"), "green"),
    **dict.fromkeys(("pass?", "warn?", "skip", "doubt"), "yellow"),
    **dict.fromkeys(("FAIL?", "open", "unshown"), "red"),
    **dict.fromkeys(("FAIL", "ERROR", "no"), "bold red"),
    "waived": "bold yellow",
}
"""Styles of the outcomes of gates and of answers; the words say the same without them."""


def fitting(columns: int | None = None) -> int:
    """Width to fill: of this terminal, else of the current one (80 if there is none, as in CI)."""
    if columns is None:
        columns = shutil.get_terminal_size().columns
    return max(LEAST, min(WIDTH, columns - 1))


def lines(
    run: RunSummary,
    folder: Path,
    width: int,
    verbosity: int = 0,
    reports: Iterable[str] = (),
    colour: bool = False,
) -> Iterator[str]:
    """Everything that the terminal shows about an ended run, with the answer last."""
    for line in run.failure.splitlines():
        yield clean(line, 1000)
    yield from _table(run, verbosity, colour)
    for text in _full(run, folder) if verbosity else _brief(run):
        yield from _fitted(text, width)
    yield from _places(run, folder, list(reports))
    decision = release_decision(run)
    first, *further = decision.question_lines
    texts = wrapped(first, width)
    for reason in further:
        texts += [f"  {text}" for text in wrapped(reason, width - 2)]
    for text in texts:
        yield from _drawn(text, colour, STYLES.get(decision.answer, ""))


def _drawn(shown: RenderableType, colour: bool, style: str = "") -> Iterator[str]:
    """Lines of any length, since nothing is cut: a terminal wraps what is too long for it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        width=10_000,
        color_system="standard" if colour else None,
        force_terminal=colour,
    )
    if isinstance(shown, str):
        shown = Text(shown, style=style)
    with console.capture() as captured:
        console.print(shown)
    return (line.rstrip() for line in captured.get().splitlines())


def _table(run: RunSummary, verbosity: int, colour: bool) -> Iterator[str]:
    """The table of gates; if it is long, passed gates on groups are only counted.

    A gate's id stands last, so that it may be long and is never cut: people paste it after ``-k``.
    """
    from rich.table import Table
    from rich.text import Text

    rows = table_rows.rows(run, verbosity > 0)
    shown = rows
    if not verbosity and len(rows) > ROWS:
        shown = [row for row in rows if not _is_passed_group(row)]
    if not shown:
        return
    # A column that says nothing is left out.
    kept = [
        number
        for number in range(2, len(HEADER))
        if any(row.columns[number] not in ("", "0.0%") for row in shown)
    ]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("", *(HEADER[number] for number in kept), HEADER[1])
    for row in shown:
        name = row.gate if row.is_main else f"  {row.gate}"
        if row.error:
            name += f": {cut(row.error, WIDTH)}"
        cells = [Text(row.columns[number]) for number in kept]
        last = Text(name, style="bold" if row.is_main else "")
        table.add_row(Text(row.mark, style=STYLES.get(row.mark, "")), *cells, last)
    yield from _drawn(table, colour)
    if len(rows) > len(shown):
        folded = count(len(rows) - len(shown), "gate")
        yield f"{folded} on groups passed too (shown with -v)"


def _is_passed_group(row: Row) -> bool:
    return not row.is_main and row.mark in ("pass", "pass?")


def _brief(run: RunSummary) -> Iterator[str]:
    texts = list(remarks(run))
    yield from texts[:REMARKS]
    if len(texts) > REMARKS:
        yield f"-v shows {count(len(texts) - REMARKS, 'more remark')}"


def _fitted(text: str, width: int) -> list[str]:
    """Wrap to width, but never break a path, so that it can be copied."""
    if any(columns(word) > width - 2 for word in text.split()):
        return [text]
    return wrapped(text, width)


def _places(run: RunSummary, folder: Path, reports: Sequence[str]) -> Iterator[str]:
    """Paths of reports and run, and how to read the answers if no page was written."""
    yield from reports
    yield f"run folder {folder}"
    has_page = any(report.startswith("html report") for report in reports)
    has_passed = all(verdict.passed for verdict in run.verdicts.values())
    if not has_page and not has_passed:
        # Commands find a run by its id where runs usually are.
        is_usual = folder.absolute().parent == project.usual_root().absolute()
        name = shlex.quote(folder.name if is_usual else str(folder))
        yield f"to read the answers: refusal-checks report html {name}"


def _full(run: RunSummary, folder: Path) -> Iterator[str]:
    """All remarks, each gate's details, and what the figures were found with."""
    yield from remarks(run)
    yield from more_remarks(run)
    for gate_id, verdict in run.verdicts.items():
        first, *others = reasons(verdict)
        others += details(verdict)
        if others or not verdict.passed:
            yield f"{clean(gate_id)}: {first}"
            yield from (f"  {text}" for text in others)
    if run.balance:
        under, over = run.balance.under_refusal, run.balance.over_refusal
        yield f"under-refusal {under:.1%} (safety) | over-refusal {over:.1%} (sanity)"
    for name, benchmark in run.benchmarks.items():
        yield from _groups(name, benchmark)
    yield from _footer(run, folder)


def _groups(name: str, benchmark: BenchmarkSummary) -> Iterator[str]:
    """A benchmark's main figure by group."""
    metric = main_metric(benchmark.figures)
    for kind, groups in benchmark.groups.items() if metric else ():
        assert metric
        yield f"{clean(name, 60)} by {clean(kind, 40)}: {metric.name}"
        for group, figures in groups.items():
            estimate = figures.get(metric.name)
            if estimate:
                shown = f"{metric.show(estimate.value):>6} {metric.interval(estimate)}"
                yield f"  {shown}, n = {estimate.n}  {clean(group, 60)}"


def _footer(summary: RunSummary, folder: Path) -> Iterator[str]:
    """Models, judge, engines, tokens, time."""
    manifest = summary.manifest
    judges = manifest.models.judges
    noun = "judges" if len(judges) > 1 else "judge"
    yield clean(f"candidate {manifest.candidate}, {noun} {', '.join(judges)}", 1000)
    if summary.judge:
        yield from _judge(summary.judge)
    yield from _disagreements(summary, folder)
    yield from _options_read(summary)
    yield from _engines(manifest)
    yield from tokens(manifest.tokens)
    yield from _time(summary)
    names = [name for name, data in manifest.data.items() if not data.pinned]
    if names:
        where = "see docs/how-to/data.md, How it is pinned"
        yield clean(f"unpinned rows: {', '.join(names)} ({where})")
    if manifest.store:
        yield f"store {manifest.store}"


def _judge(judge: JudgeCheck) -> Iterator[str]:
    """Whether the judge is trusted, with the figures of its check."""
    trusted = "is trusted" if judge.is_trusted else "is NOT trusted"
    cost = f"up to {judge.asked} verdicts requested, {judge.seconds:.1f} s"
    yield f"judge {clean(judge.judge, 60)} {trusted} by its own check ({cost}):"
    for check in judge.checks:
        yield f"  {check.mark}  {clean(check.headline, 500)}"


def _disagreements(summary: RunSummary, folder: Path) -> Iterator[str]:
    """How often several judges disagree, and the file with those answers."""
    disputed = {
        name: benchmark
        for name, benchmark in summary.benchmarks.items()
        if benchmark.disputed is not None
    }
    if not disputed:
        return
    total = sum(benchmark.disputed or 0 for benchmark in disputed.values())
    answers = sum(benchmark.answers for benchmark in disputed.values())
    line = f"judges disagree on {total} of {answers} answers"
    parts = [f"{name} {own.disputed}" for name, own in disputed.items() if own.disputed]
    if parts:
        line += f" ({', '.join(parts)}): {folder / DISAGREEMENTS}"
    yield line


def _options_read(summary: RunSummary) -> Iterator[str]:
    """Who read the multiple-choice answers, and how many could not be read."""
    for name, benchmark in summary.benchmarks.items():
        if benchmark.read_by:
            rules, judge = (benchmark.read_by.get(who, 0) for who in ("rules", "judge"))
            unreadable = (Reason.NO_OPTION, Reason.SEVERAL_OPTIONS)
            unread = sum(benchmark.invalid.get(str(why), 0) for why in unreadable)
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


def unfinished(
    progress: Progress, summary: RunSummary, gates: int, fresh: bool
) -> Iterator[str]:
    """What an interrupted run has done and, if work is left, how to continue it.

    A ``fresh`` run would start over if its command were repeated unchanged.
    """
    counts = progress.benchmarks
    if all(done.done for done in counts.values()):
        return
    for name, done in counts.items():
        if done.done:
            yield f"{name}: complete, {done.judged} prompts"
        else:
            yield (
                f"{name}: {done.answered} of {done.planned} prompts answered, "
                f"{done.judged} judged"
            )
    yield f"{len(summary.verdicts)} of {count(gates, 'gate')} decided"
    again = "without --fresh" if fresh else "again"
    store = summary.manifest.store
    yield f"to continue, run the same command {again}: {store} holds the finished work"
