"""What the terminal shows when a run has ended: gates, remarks, the run's folder, the answer.

``-v`` adds each gate's details, models and settings. After an interruption: how to continue.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.layout import display_width, truncate, wrap
from refusal_checks.core.text import count, sanitize
from refusal_checks.metrics import main_metric
from refusal_checks.models.client.usage import Usage
from refusal_checks.reports import rows as table_rows
from refusal_checks.reports.rows import HEADER
from refusal_checks.results.events import Progress
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording.gate_sentences import details, reasons
from refusal_checks.wording.release import release_decision
from refusal_checks.wording.remarks import more_remarks, remarks

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH, LEAST = 100, 40
"""Widest and narrowest output in columns, whatever the terminal's size."""

ROWS = 12
"""With more rows than this, the table folds passed gates on groups."""

REMARKS = 4
"""The most remarks that are shown without ``-v``."""

STYLES = {
    **dict.fromkeys(("pass", "yes"), "green"),
    **dict.fromkeys(("pass?", "warn?", "skip", "doubt"), "yellow"),
    **dict.fromkeys(("FAIL?", "open", "unverified"), "red"),
    **dict.fromkeys(("FAIL", "ERROR", "no"), "bold red"),
    "waived": "bold yellow",
}
"""Styles of the outcomes of gates and of answers; the words say the same without them."""


def usable_width(columns: int | None = None) -> int:
    """Width to fill: this terminal's, else the current one's (80 without one, as in CI)."""
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
    # What ended the run comes first, because the figures below may be of a part.
    for line in run.failure.splitlines():
        yield sanitize(line, 1000)
    yield from _table(run, verbosity, colour)
    for text in _full_text(run) if verbosity else _brief_text(run):
        yield from _fit(text, width)
    written = list(reports)
    yield from written
    yield f"run folder {folder}"
    has_page = any(report.startswith("html report") for report in written)
    if not has_page and not all(verdict.passed for verdict in run.verdicts.values()):
        name = shlex.quote(str(folder))
        yield f"to read the answers: refusal-checks report html {name}"
    # Last, where a log is read first; CI shows its tail.
    decision = release_decision(run)
    first, *further = decision.question.split("\n")
    texts = wrap(first, width)
    for reason in further:
        texts += [f"  {text}" for text in wrap(reason, width - 2)]
    for text in texts:
        yield from _draw(text, colour, STYLES.get(decision.answer, ""))


def _draw(shown: RenderableType, colour: bool, style: str = "") -> Iterator[str]:
    """Lines of any length; nothing is cut, as terminals wrap long lines."""
    from rich.console import Console
    from rich.text import Text

    # rich cuts what is wider than its console, and an id that is cut cannot be pasted.
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

    A gate's id is last, so that a long one is never cut: people paste it after ``-k``.
    """
    from rich.table import Table
    from rich.text import Text

    rows = table_rows.rows(run)
    shown = rows if verbosity else [row for row in rows if not row.is_extra]
    folded = 0
    # Failed gates are never folded away.
    if not verbosity and len(shown) > ROWS:
        main = [row for row in shown if not (row.is_of_group and row.has_passed)]
        folded, shown = len(shown) - len(main), main
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
        name = row.id if row.is_main else f"  {row.id}"
        if row.error:
            name += f": {truncate(row.error, WIDTH)}"
        cells = [Text(row.columns[number]) for number in kept]
        last = Text(name, style="bold" if row.is_main else "")
        table.add_row(Text(row.mark, style=STYLES.get(row.mark, "")), *cells, last)
    yield from _draw(table, colour)
    if folded:
        yield f"{count(folded, 'gate')} on groups passed too (shown with -v)"


def _brief_text(run: RunSummary) -> Iterator[str]:
    texts = list(remarks(run))
    yield from texts[:REMARKS]
    if len(texts) > REMARKS:
        yield f"-v shows {count(len(texts) - REMARKS, 'more remark')}"


def _fit(text: str, width: int) -> list[str]:
    """Wrap to width, but never break a path, so that it can be copied."""
    if any(display_width(word) > width - 2 for word in text.split()):
        return [text]
    return wrap(text, width)


def _full_text(run: RunSummary) -> Iterator[str]:
    """All remarks, each gate's details, and the models and settings."""
    yield from remarks(run)
    yield from more_remarks(run)
    for gate_id, verdict in run.verdicts.items():
        first, *others = reasons(verdict)
        others += details(verdict)
        if others or not verdict.passed:
            yield f"{sanitize(gate_id)}: {first}"
            yield from (f"  {text}" for text in others)
    for name, benchmark in run.benchmarks.items():
        metric = main_metric(benchmark.figures)
        for kind, groups in benchmark.groups.items() if metric else ():
            assert metric
            yield f"{sanitize(name, 60)} by {sanitize(kind, 40)}: {metric.name}"
            for group, figures in groups.items():
                estimate = figures.get(metric.name)
                if estimate:
                    shown = (
                        f"{metric.show(estimate.value):>6} {metric.interval(estimate)}"
                    )
                    yield f"  {shown}, n = {estimate.n}  {sanitize(group, 60)}"
    manifest = run.manifest
    judges = ", ".join(manifest.models.judges)
    yield sanitize(f"candidate {manifest.candidate}, judged by {judges}", 1000)
    if run.judge:
        trusted = "is trusted" if run.judge.is_trusted else "is NOT trusted"
        yield f"judge {sanitize(run.judge.judge, 60)} {trusted} by its own check:"
        for check in run.judge.checks:
            yield f"  {check.mark}  {sanitize(check.headline, 500)}"
    went = run.execution
    yield from tokens(went.tokens)
    if went.seconds is not None:
        yield (
            f"time {went.seconds:.1f} s: {went.reused} answers were stored already, at "
            f"most {went.answers} were generated and {went.verdicts} verdicts requested"
        )


def tokens(used: Mapping[str, Usage]) -> Iterator[str]:
    """One line with the candidate's and judge's tokens; none if no model was asked."""
    parts = [
        _role_line(role, usage)
        for role, usage in used.items()
        if usage.prompt + usage.output
    ]
    if parts:
        yield f"tokens: {'; '.join(parts)}"


def _role_line(role: str, usage: Usage) -> str:
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    counts = f"{usage.prompt:,} prompt{cached}, {usage.output:,} output"
    text = f"{role} {counts} in {usage.requests:,} requests"
    if usage.verdicts:
        share = round((usage.prompt + usage.output) / usage.verdicts)
        text += f", {share:,} for each verdict"
    return text


def unfinished_work(
    progress: Progress, summary: RunSummary, gates: int, fresh: bool
) -> Iterator[str]:
    """What an interrupted run has done, and how to continue it if work is left.

    A ``fresh`` run would start over if its command were repeated unchanged.
    """
    counts = progress.benchmarks
    if all(
        done.done for done in counts.values()
    ):  # interrupted while reports were written
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
