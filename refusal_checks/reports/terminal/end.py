"""The end of a run's output: the table, what matters most, where the reports are, the answer.

With ``-v`` also what the run was made with; of an interrupted run, how to continue it.
"""

import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from refusal_checks.core.layout import columns, cut, table, wrapped
from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import Reason
from refusal_checks.judges.trust.canary import KINDS, Check
from refusal_checks.models.client.usage import Usage
from refusal_checks.reports import remarks
from refusal_checks.reports import rows as table_rows
from refusal_checks.reports.rows import HEADER, Row
from refusal_checks.reports.terminal import remark_lines
from refusal_checks.results import project
from refusal_checks.results.events import Progress
from refusal_checks.results.export import DISAGREEMENTS
from refusal_checks.results.release import release_decision
from refusal_checks.results.summary import RunSummary

ROWS = 12  # most rows of the table before gates on groups that passed are folded
Runs = Sequence[tuple[RunSummary, Path]]  # runs that have ended, each with its folder
WIDTH, _LEAST = (
    100,
    40,
)  # columns of what a terminal is shown, at most and whatever its size


def fitting(columns: int | None = None) -> int:
    """The columns to fill: of this terminal, else of the current one (80 without any, as in CI)."""
    known = shutil.get_terminal_size().columns if columns is None else columns
    return max(_LEAST, min(WIDTH, known - 1))


COLOURS = {
    **dict.fromkeys(("pass", "yes"), "green"),
    **dict.fromkeys(("pass?", "warn?", "skip", "doubt"), "yellow"),
    **dict.fromkeys(("FAIL?", "open"), "red"),
    **dict.fromkeys(("FAIL", "ERROR", "no"), "red bold"),
    "waived": "yellow bold",
}
"""pytest's markup for the outcomes of gates and for answers; the words say the same without it."""

MARK_WIDTH = 7


class Line(NamedTuple):
    text: str
    mark: str = ""  # the outcome of a gate's test, or the whole of an answer
    is_bold: bool = False
    colour: str = ""  # of a mark that is no outcome itself, see ``COLOURS``

    def __str__(self) -> str:
        return self.mark + self.text

    @property
    def pieces(self) -> tuple[tuple[str, Mapping[str, bool]], ...]:
        looks = COLOURS.get(self.colour or self.mark, "").split()
        return (self.mark, dict.fromkeys(looks, True)), (
            self.text,
            {"bold": self.is_bold},
        )


def lines(
    runs: Runs, width: int, verbosity: int = 0, reports: Iterable[str] = ()
) -> Iterator[Line]:
    """All that the terminal shows about runs that have ended, reports' places too, answer last."""
    summaries = [summary for summary, _ in runs]
    names = [
        f"{name}: " if name else "" for name in table_rows.candidate_names(summaries)
    ]
    named = list(zip(names, summaries, strict=True))
    for name, run in named:
        yield from (Line(name + clean(line, 1000)) for line in run.failure.splitlines())
    shown = table_rows.rows(summaries, verbosity > 0)
    folded: list[Row] = []
    if not verbosity and len(shown) > ROWS:
        folded = [
            row for row in shown if not row.is_main and row.mark in ("pass", "pass?")
        ]
        shown = [row for row in shown if row not in folded]
    yield from table_lines(shown, width)
    if folded:
        yield Line(f"{count(len(folded), 'gate')} on groups passed too (shown with -v)")
    if verbosity:
        for name, run in named:
            for text in remark_lines.full_lines(run, verbosity):
                yield from map(Line, remark_lines.fitted(name + text, width))
        yield from map(Line, footer(runs, width))
    else:
        yield from map(Line, remark_lines.brief_lines(named, width))
        for text in remarks.bundled_scope(summaries):
            yield from map(Line, remark_lines.fitted(text, width))
    written = list(reports)
    yield from map(Line, written)
    yield from (Line(f"run folder {folder}") for _, folder in runs)
    has_page = any(line.startswith("html report") for line in written)
    if not has_page and not all(
        v.passed for run in summaries for v in run.verdicts.values()
    ):
        # The runs as commands take them: their ids where these are known from here, else folders.
        own = project.usual_root().absolute()
        folders = (folder for _, folder in runs)
        ids = (
            each.name if each.absolute().parent == own else str(each)
            for each in folders
        )
        page = f"refusal-checks report html {shlex.join(ids)}"
        yield Line(f"to read the answers: {page}")
    for name, run in named:  # may it ship?
        found = release_decision(run)
        for text in wrapped(f"{name}{found.question}", width):
            yield Line("", text, is_bold=True, colour=found.answer)


def table_lines(rows: Sequence[Row], width: int) -> Iterator[Line]:
    """The table without empty columns, and without those that have no room.

    No gate's name is cut, since ``-k`` takes it: where it has no room, it stands above its row.
    """
    if not rows:
        return
    from rich.cells import chop_cells  # not for collection

    head = HEADER[1:]
    cells = [
        (row.gate if row.is_main else f"  {row.gate}", *row.columns[2:]) for row in rows
    ]
    kept = [n for n in range(len(head)) if any(row[n] for row in cells)]
    grid, room = [[row[n] for n in kept] for row in (head, *cells)], width - MARK_WIDTH
    grid, stacked = _fitted(grid, room)
    first, *texts = table([row[stacked:] for row in grid])
    yield Line(" " * MARK_WIDTH + cut(first, room))
    above = ""
    for row, (gate, *_), text in zip(rows, cells, texts, strict=True):
        if stacked and gate != above:
            above = gate
            parts = [gate] if columns(gate) <= room else chop_cells(gate, room - 4)
            for number, part in enumerate(parts):
                yield Line(
                    " " * (MARK_WIDTH + 4 * bool(number)) + part, is_bold=row.is_main
                )
        if row.error:
            text = f"{text}: {row.error}" if text else row.error
        yield Line(
            " " * (MARK_WIDTH - len(row.mark)) + cut(text, room), row.mark, row.is_main
        )


def _fitted(grid: list[list[str]], room: int) -> tuple[list[list[str]], bool]:
    """The grid as it fits, and whether its first column stands above the rows.

    What a reader misses least goes first: the share of invalid answers where there are none, the
    intervals, the number of prompts.
    """
    for step in ("", "invalid", "figure", "n"):
        if step in grid[0]:
            at = grid[0].index(step)
            if step == "figure":
                grid = [
                    [*row[:at], row[at].partition(" [")[0], *row[at + 1 :]]
                    for row in grid
                ]
            elif step == "n" or all(row[at] in ("", "0.0%") for row in grid[1:]):
                grid = [[*row[:at], *row[at + 1 :]] for row in grid]
        widths = [max(map(columns, column)) for column in zip(*grid, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= room:
            return grid, False
    return grid, True


def footer(runs: Runs, width: int = WIDTH) -> Iterator[str]:
    """What runs were made with: models, judge, engines, tokens, time.

    Lines with names and paths may be long. The check of a judge that several candidates share is
    shown once.
    """
    for line in remarks.bundled_scope([summary for summary, _ in runs]):
        yield from wrapped(line, width)
    seen: list[tuple[Check, ...]] = []
    for summary, folder in runs:
        judge, manifest = summary.judge, summary.manifest
        judges = manifest.models.judges
        named = f"judge{'s' if len(judges) > 1 else ''} {', '.join(judges)}"
        yield clean(f"candidate {manifest.candidate}, {named}", 1000)
        if judge and judge.checks not in seen:
            seen.append(judge.checks)
            trusted = "is trusted" if judge.is_trusted else "is NOT trusted"
            cost = f"at most {judge.asked} verdicts asked for, {judge.seconds:.1f} s"
            head = (
                f"judge {clean(judge.judge, 60)} {trusted} by its own check ({cost}):"
            )
            shown = (x for x in judge.checks if x.figure not in KINDS or not x.passed)
            for line in (
                head,
                *(f"  {x.mark}  {clean(x.headline, 500)}" for x in shown),
            ):
                yield from wrapped(line, width)
        yield from _readings(summary, folder)
        if engines := manifest.engines:
            models = {"started": engines.started, "attached": engines.attached}
            used = [
                f"{how} {clean(', '.join(names))}"
                for how, names in models.items()
                if names
            ]
            times = " and ".join(f"{seconds:.0f} s" for seconds in engines.ready_s)
            ready = f", ready after {times}" if times and engines.started else ""
            yield f"engine {'; '.join(used) or 'none: no model was needed'}{ready}"
        for line in tokens(manifest.tokens):
            yield from wrapped(line, width)
        asked, seconds = manifest.asked, manifest.evaluation_s
        if asked and seconds is not None:
            found = [
                each for each in summary.benchmarks.values() if not each.is_repeated
            ]
            answers = sum(each.answers for each in found)
            rate = f", {answers / seconds:.0f} per second" if seconds else ""
            line = (
                f"time {seconds:.1f} s for {answers} answers with verdicts{rate}; {asked.reused} "
                f"answers were stored already, at most {asked.answers} were generated and "
                f"{asked.verdicts} verdicts requested"
            )
            yield from wrapped(line, width)
        if rows := [name for name, data in manifest.data.items() if not data.pinned]:
            where = "see docs/how-to/data.md, How it is pinned"
            yield clean(f"unpinned rows: {', '.join(rows)} ({where})")
        if manifest.store:
            yield f"store {manifest.store}"


def _readings(summary: RunSummary, folder: Path) -> Iterator[str]:
    """How often several judges disagree, the file with those answers, and who read the options."""
    found = {
        n: each for n, each in summary.benchmarks.items() if each.disputed is not None
    }
    if found:
        by_name = {name: each.disputed for name, each in found.items() if each.disputed}
        total = sum(by_name.values())
        answers = sum(
            each.second.asked if each.second else each.answers
            for each in found.values()
        )
        named = ", ".join(f"{name} {number}" for name, number in by_name.items())
        listed = f" ({named}): {folder / DISAGREEMENTS}" if total else ""
        yield f"judges disagree on {total} of {answers} answers{listed}"
    for name, each in summary.benchmarks.items():
        if each.read_by:
            rules, judge = (each.read_by.get(who, 0) for who in ("rules", "judge"))
            why = (Reason.NO_OPTION, Reason.SEVERAL_OPTIONS)
            unread = sum(each.invalid.get(str(reason), 0) for reason in why)
            yield f"options in {name}: {rules} read by rules, {judge} by the judge, {unread} unread"


def tokens(used: Mapping[str, Usage]) -> Iterator[str]:
    """One line with the tokens of candidate and judge; none if no model was asked."""
    told = []
    for role, usage in used.items():
        is_known = usage.prompt + usage.output
        cost = f"{role} {_cost(usage, 1) if is_known else 'unknown'} in {usage.requests:,} requests"
        if is_known and usage.retries:
            cost += f" and {usage.retries:,} retries"
        if is_known and usage.verdicts:
            cost += f", per verdict: {_cost(usage, usage.verdicts)}"
        told += [cost] * bool(usage.requests)
    if told:
        yield f"tokens: {'; '.join(told)}"


def _cost(usage: Usage, share: int) -> str:
    counts = (usage.prompt, usage.cached, usage.output)
    prompt, cached, output = (round(number / share) for number in counts)
    from_cache = f" ({cached:,} cached)" if cached else ""
    return f"{prompt:,} prompt{from_cache}, {output:,} output"


def unfinished(
    progress: Progress, summary: RunSummary, gates: int, fresh: bool
) -> Iterator[str]:
    """What an interrupted run has done and, if anything is left to do, how to continue it.

    A ``fresh`` run that is repeated as it was would begin anew.
    """
    counts = progress.benchmarks
    if not counts or all(done.done for done in counts.values()):
        return
    for name, done in counts.items():
        partly = (
            f"{done.answered} of {done.planned} prompts answered, {done.judged} judged"
        )
        yield f"{name}: " + (
            f"complete, {done.judged} prompts" if done.done else partly
        )
    yield f"{len(summary.verdicts)} of {count(gates, 'gate')} decided"
    again = "without --fresh" if fresh else "again"
    store = summary.manifest.store
    yield f"to continue, run the same command {again}: {store} holds the finished work"
